"""Builds the site of documentation into build/site: `python tools/site.py`, then open build/site/index.html.

    pip install ".[site]"                  # Sphinx, furo, myst-parser
    python tools/site.py                   # build; a warning is an error
    python tools/site.py --check           # and check it: tools/site_check.py

The pages are docs/*.md, docs/notes, README and their kin as they stand, which also read well in an editor; the reference and
the gallery are generated (site_pages.py). What goes where in the navigation is said by SECTIONS, and nowhere else. Why Sphinx: see
Note: the site. Start reading at `main`.
"""

from __future__ import annotations

import argparse
import os
import pathlib
import re
import shutil
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import site_pages

ROOT = site_pages.ROOT
FILES = ROOT / "tools" / "site_files"
#: The navigation: of each section the pages in docs/, without `.md`. A page that is not there is left out, and a page
#: of docs/ that is in no section is an error.
SECTIONS = {
    "Start": "install ten_minutes numpy_users torch_users jax_users platforms",
    "Guides": "leaves_and_modes in_place_and_views backward_and_hooks errors networks checkpointing func batching forward_mode "
    "verifying custom_functions primitives replay fx complex_numbers sparse distributions accuracy many_runs distributed files devices "
    "scipy array_api subclasses running_torch_programs",
    "Gallery": "gallery",
    "Reference": "reference/index coverage",
    "How it works": "notes/index",
    "Benchmarks": "benchmarks",
    "Changes": "changes versions contributing security",
}
#: Files outside of docs/ that are pages.
ELSEWHERE = {
    "README.md": "index.md",
    "CHANGELOG.md": "changes.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md",
    "benchmarks/README.md": "benchmarks.md",
    "docs/reference.md": "reference/index.md",
    "docs/reference": "reference/index.md",
    "docs/notes": "notes/index.md",
    "docs": "index.md",
}
OPTIONS = {
    "project": "Adjoint",
    "author": "the authors of Adjoint",
    "copyright": "the authors of Adjoint",
    "extensions": ["myst_parser"],
    "myst_heading_anchors": 4,
    "myst_links_external_new_tab": False,
    "nitpicky": True,
    "html_theme": "furo",
    "html_title": "Adjoint",
    "html_static_path": [str(FILES / "static")],
    "html_css_files": ["site.css"],
    "html_copy_source": False,
    "html_show_sphinx": False,
    "html_last_updated_fmt": None,
    "pygments_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
    "html_theme_options": {
        "light_css_variables": {"color-brand-primary": "#0b4f9e", "color-brand-content": "#0b4f9e"},
        "dark_css_variables": {"color-brand-primary": "#8ab8ff", "color-brand-content": "#8ab8ff"},
    },
    "python_display_short_literal_types": True,
    # Each page of the reference begins with a table of its names. In the navigation they would be copied for each page.
    "toc_object_entries": False,
    "templates_path": [str(FILES / "templates")],
}


def place(path):
    """The page on which a file of the repository stands, or None."""
    if path in ELSEWHERE:
        return ELSEWHERE[path]
    if path.startswith("docs/") and path.endswith(".md"):
        return path.removeprefix("docs/")
    if re.fullmatch(r"examples/\w+\.py", path):
        return path.replace("examples/", "gallery/").replace(".py", ".md")
    if path.startswith("docs/pictures/"):
        return path.removeprefix("docs/")
    return None


def linked(text, file, page):
    """The text of a file, with its links to files of the repository as links of the site."""

    def link(found):
        if found[1] is None:
            return found[0]
        target, _, anchor = found[2].partition("#")
        if not target or re.match(r"[a-z]+:", target):
            return found[0]
        path = os.path.normpath(os.path.join(os.path.dirname(file), target))
        if not (ROOT / path).exists():
            raise SystemExit(f"{file}: a link to {target}, which is not there")
        there = place(path)
        base = os.path.dirname(page)
        if there is not None:
            return f"{found[1]}({os.path.relpath(there, base or '.')}{'#' * bool(anchor)}{anchor})"
        site_pages.SOURCES.add(path)
        where = os.path.relpath(f"source/{path}.html", base or ".")
        return f'<a href="{where}">{found[1][1:-1].strip("`")}</a>'

    # The empty line that ends a session for doctest is not shown.
    text = re.sub(r"\n\n```$", "\n```", text, flags=re.M)
    parts = re.split(r"(^```.*?^```$)", text, flags=re.M | re.S)
    # Code comes first where it begins first: what looks like a link within it is none.
    pattern = re.compile(r"(!?\[(?:[^\[\]`]|`[^`]*`)*\])\(([^)\s]+)\)|`+[^`]+`+|^ {4,}.*$", re.M)
    return "".join(p if p.startswith("```") else pattern.sub(link, p) for p in parts)


def toctree(names, caption=None, hidden=False):
    lines = ["```{toctree}", *([f":caption: {caption}"] if caption else []), ":maxdepth: 1"]
    return "\n".join([*lines, *([":hidden:"] if hidden else []), "", *names, "```", ""])


def assemble(folder):
    """Write the sources of the site into a folder."""
    texts = {}
    for file in sorted((ROOT / "docs").rglob("*.md")):
        name = file.relative_to(ROOT).as_posix()
        if not name.startswith("docs/reference"):
            texts[place(name)] = linked(file.read_text(encoding="utf-8"), name, place(name))
    for name, page in ELSEWHERE.items():
        if name.endswith(".md") and name != "docs/reference.md":
            texts[page] = linked((ROOT / name).read_text(encoding="utf-8"), name, page)
    examples = site_pages.gallery()
    texts |= examples | site_pages.reference()
    notes = sorted(p for p in texts if p.startswith("notes/"))
    texts["notes/index.md"] = (
        "# How it works\n\nWhy things are as they are: one note for each idea. "
        "[The walk](walk.md) follows one call through the source, and is where to start.\n\n"
        + toctree(["walk", *(n[6:-3] for n in notes if n != "notes/walk.md")])
    )
    texts["gallery.md"] += "\n" + toctree([n[:-3] for n in sorted(examples)], hidden=True)
    for title, names in SECTIONS.items():
        there = [n for n in names.split() if f"{n}.md" in texts]
        texts["index.md"] += "\n" + toctree(there, title, hidden=True)
    for path, text in texts.items():
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        # What is as it was keeps its time, so that Sphinx reads only what has changed.
        if not target.exists() or target.read_text(encoding="utf-8") != text:
            target.write_text(text, encoding="utf-8")
    for file in set(folder.rglob("*.md")) - {folder / p for p in texts}:
        file.unlink()
    shutil.copytree(ROOT / "docs" / "pictures", folder / "pictures", dirs_exist_ok=True)


def build(sources, output, jobs):
    """Run Sphinx; the number of warnings."""
    from sphinx.application import Sphinx

    version = re.search(r'"([^"]+)"', (ROOT / "src/adjoint/_version.py").read_text(encoding="utf-8"))[1]
    options = OPTIONS | {"version": version, "release": version}
    (sources / "conf.py").write_text("".join(f"{k} = {v!r}\n" for k, v in options.items()), encoding="utf-8")
    cache = sources.parent / "site_cache"
    app = Sphinx(str(sources), str(sources), str(output), str(cache), "html", parallel=jobs, status=None)
    app.build()
    return app._warncount


def main(arguments=None):
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--output", type=pathlib.Path, default=ROOT / "build" / "site")
    parser.add_argument(
        "--fresh", action="store_true", help="build all pages, also those that have not changed"
    )
    parser.add_argument("--check", action="store_true", help="check what was built, too")
    parser.add_argument("--jobs", type=int, default=min(4, os.cpu_count() or 1))
    options = parser.parse_args(arguments)
    begin = time.perf_counter()
    output = options.output.resolve()
    sources = output.parent / "site_sources"
    if options.fresh:
        for folder in (output, sources, output.parent / "site_cache"):
            shutil.rmtree(folder, ignore_errors=True)
    assemble(sources)
    if warnings := build(sources, output, options.jobs):
        print(f"{warnings} warnings", file=sys.stderr)
        return 1
    site_pages.write_sources(output)
    print(f"{output / 'index.html'} ({time.perf_counter() - begin:.0f} s)", flush=True)
    if options.check:
        import site_check

        return site_check.main([str(output)])
    return 0


if __name__ == "__main__":
    sys.exit(main())
