"""The site (tools/site.py): every page has its place, and the checks of what was built find what is wrong.

Sphinx builds it in `.ci/run`; here is what needs none of its packages. Start reading at `test_mistakes_are_found`.
"""

import importlib.util
import pathlib
import re
import resource
import shutil

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent


def tool(name):
    spec = importlib.util.spec_from_file_location("tool_" + name, ROOT / "tools" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


check = tool("site_check")


@pytest.fixture(scope="module")
def site():
    return tool("site")


def test_every_page_is_in_the_navigation_once(site):
    listed = " ".join(site.SECTIONS.values()).split()
    assert len(listed) == len(set(listed))
    there = {p.stem for p in (ROOT / "docs").glob("*.md")} - {"reference"}
    other = {pathlib.PurePath(p).stem for p in site.ELSEWHERE.values()} - {"index"}
    assert there <= set(listed)
    # `platforms` may come later; everything else is a page.
    assert set(listed) - there - other - {"platforms"} == {"reference/index", "notes/index"}


def test_links_of_all_pages_lead_to_files(site):
    files = [
        *(ROOT / "docs").rglob("*.md"),
        *(ROOT / name for name in site.ELSEWHERE if name.endswith(".md")),
    ]
    for file in files:
        name = file.relative_to(ROOT).as_posix()
        if not name.startswith("docs/reference"):
            site.linked(file.read_text(encoding="utf-8"), name, site.place(name))


def test_a_link_that_leads_nowhere_is_refused(site):
    with pytest.raises(SystemExit, match="nowhere.md"):
        site.linked("[a](nowhere.md)", "docs/gallery.md", "gallery.md")
    same = "`[a](nowhere.md)`\n```\n[a](nowhere.md)\n```\n    [a](nowhere.md)\n"
    assert site.linked(same, "docs/gallery.md", "gallery.md") == same


def test_the_reference_has_every_public_name(site):
    pages = site.site_pages
    written = pages.reference()
    said = set()
    for text in written.values():
        module = re.search(r"\{py:module\} (\S+)", text)
        for name in re.findall(r"^`{6}\{py:\w+\} ([\w.]+)", text, re.MULTILINE):
            said.add((module[1] + "." if module else "") + name)
    for module in ["", *pages.MODULES]:
        for names, _, _ in pages.pages.entries(module):
            for name in names:
                full = "adjoint." + (module + "." if module else "") + name
                assert full in said, full
    assert len(said) > 1500


def test_the_gallery_has_a_page_of_each_example(site):
    written = site.site_pages.gallery()
    assert {pathlib.PurePath(p).stem for p in written} == {f.stem for f in (ROOT / "examples").glob("*.py")}
    pictures = {p.stem for p in (ROOT / "docs" / "pictures").glob("*.png")}
    assert {n for n in pictures if f"pictures/{n}.png" in written[f"gallery/{n}.md"]} == pictures


GOOD = """<!doctype html><html lang="en"><head><title>x</title>
<meta name="viewport" content="width=device-width, initial-scale=1"></head><body style="background: #fff; color: #000">
<h1>A title</h1><h2 id="there">Below</h2><p>Words to be read.</p></body></html>"""
#: What is planted, and the beginning of what must be said of it.
PLANTED = {
    '<a href="nowhere.html">a</a>': "a link to nowhere.html",
    '<a href="#nowhere">a</a>': "a link to #nowhere: no such anchor",
    "<h4>Too deep</h4>": "a heading of level 4 follows one of level 2",
    "<h1>Another</h1>": "2 headings of the first level",
    '<img src="good.html">': "a picture without a text",
    '<i id="there">twice</i>': "id 'there' 2 times",
    '<script src="https://example.org/x.js"></script>': "is rendered with https://example.org/x.js",
}
#: The same of what only a browser sees.
SHOWN = {
    '<p style="color: #999">Too pale.</p>': "light: contrast 2.85 of 'Too pale.'",
    "<script>undefined_name()</script>": "script: ReferenceError",
    '<div style="width: 700px">Wide</div>': "is ",
}


def test_mistakes_are_found(tmp_path):
    (tmp_path / "good.html").write_text(GOOD)
    assert list(check.html_findings(tmp_path)) == []
    for wrong, said in PLANTED.items():
        (tmp_path / "bad.html").write_text(GOOD.replace("</body>", wrong + "</body>"))
        found = [text for name, text in check.html_findings(tmp_path) if str(name) == "bad.html"]
        assert any(text.startswith(said) for text in found), (wrong, found)


def test_mistakes_are_seen_in_a_browser(tmp_path):
    program = next(filter(None, map(shutil.which, check.BROWSERS)), None)
    if program is None:
        pytest.skip("no Chromium: tools/site_check.py says so, too")
    if 0 <= resource.getrlimit(resource.RLIMIT_AS)[0] < 64 << 30:
        pytest.skip(
            "Chromium reserves more addresses than `ulimit -v` allows here, however little memory it takes"
        )
    (tmp_path / "good.html").write_text(GOOD)
    (tmp_path / "blank.html").write_text('<!doctype html><html lang="en"><body></body></html>')
    for n, wrong in enumerate(SHOWN):
        (tmp_path / f"bad{n}.html").write_text(GOOD.replace("</body>", wrong + "</body>"))
    names = [p.name for p in sorted(tmp_path.glob("*.html"))]
    found = check.browser_findings(program, tmp_path, names, None)
    assert [text for name, text in found if name == "good.html"] == []
    assert [text for name, text in found if name == "blank.html"] == ["an empty screenshot"]
    for n, said in enumerate(SHOWN.values()):
        texts = [text for name, text in found if name == f"bad{n}.html"]
        assert any(text.startswith(said) for text in texts), (said, texts)
