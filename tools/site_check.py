"""Checks the built site: `python tools/site_check.py build/site`. Any finding is printed, and the exit status is 1.

Of every page's HTML: links and anchors lead somewhere, nothing that renders it is fetched from elsewhere, it has one h1, no level
of headings is left out, pictures have a text, ids are unique. In headless Chromium, where it is installed, from `file://`: no
script reports an error, nothing is wider than a telephone, the text has the contrast of WCAG 2 (4.5, or 3 where it is large)
in the light and the dark theme, the screenshot is not empty, and the search finds. Start reading at `main`.
"""

from __future__ import annotations

import base64
import collections
import concurrent.futures
import fcntl
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.parse
import zlib
from html.parser import HTMLParser

#: Attributes by which a page fetches what it is rendered with.
FETCHES = {"script": "src", "img": "src", "link": "href", "iframe": "src", "source": "src"}
BROWSERS = "chromium-headless-shell", "chromium", "chromium-browser", "google-chrome"


class Page(HTMLParser):
    """What of a page is checked: its ids, links, headings, pictures."""

    def __init__(self, path):
        super().__init__()
        self.ids, self.links, self.levels, self.wrong = collections.Counter(), [], [], []
        self.language = None
        self.feed(path.read_text(encoding="utf-8"))
        if self.levels.count(1) != 1:
            self.wrong.append(f"{self.levels.count(1)} headings of the first level")
        for before, level in zip(self.levels, self.levels[1:]):
            if level > before + 1:
                self.wrong.append(f"a heading of level {level} follows one of level {before}")
        self.wrong += [f"id '{name}' {n} times" for name, n in self.ids.items() if n > 1]
        if not self.language:
            self.wrong.append("no language")

    def handle_starttag(self, tag, attributes):
        have = dict(attributes)
        if "id" in have:
            self.ids[have["id"]] += 1
        if tag == "html":
            self.language = have.get("lang")
        if tag in ("h1", "h2", "h3", "h4", "h5", "h6"):
            self.levels.append(int(tag[1]))
        if tag == "a" and "href" in have:
            self.links.append(have["href"])
        if tag == "img" and not (have.get("alt") or "").strip():
            self.wrong.append(f"a picture without a text: {have.get('src')}")
        target = have.get(FETCHES.get(tag, ""))
        if target and (tag != "link" or have.get("rel") != "canonical"):
            if urllib.parse.urlsplit(target).netloc:
                self.wrong.append(f"is rendered with {target}")
            self.links.append(target)


def html_findings(root):
    """(page, finding) of the files alone."""
    pages = {p.resolve(): Page(p) for p in sorted(root.rglob("*.html"))}
    for path, page in pages.items():
        name = path.relative_to(root.resolve())
        yield from ((name, wrong) for wrong in page.wrong)
        for target in page.links:
            url = urllib.parse.urlsplit(target)
            if url.scheme or url.netloc:
                continue
            there = (path.parent / urllib.parse.unquote(url.path)).resolve() if url.path else path
            if not there.is_file():
                yield name, f"a link to {target}, which is not there"
            elif (
                url.fragment and there in pages and urllib.parse.unquote(url.fragment) not in pages[there].ids
            ):
                yield name, f"a link to {target}: no such anchor"


def _high(descriptor):
    """The descriptor by a number above those that the browser's have."""
    number = fcntl.fcntl(descriptor, fcntl.F_DUPFD, 20)
    os.close(descriptor)
    return number


class Browser:
    """Headless Chromium, asked over a pipe (its file descriptors 3 and 4) in the DevTools protocol."""

    def __init__(self, program):
        mine_in, its_out = os.pipe()
        its_in, mine_out = os.pipe()
        its_in, its_out = _high(its_in), _high(its_out)
        self.profile = tempfile.mkdtemp()
        options = [
            "--remote-debugging-pipe",
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--hide-scrollbars",
        ]
        options += ["--no-first-run", "--disable-background-networking", f"--user-data-dir={self.profile}"]
        # Descriptors 3 and 4 are given by a shell: they may be in use in this process.
        line = f'exec "$0" "$@" 3<&{its_in} 4>&{its_out} {its_in}<&- {its_out}>&-'
        self.process = subprocess.Popen(
            ["/bin/bash", "-c", line, program, *options],
            pass_fds=(its_in, its_out),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(its_in)
        os.close(its_out)
        self.read, self.write = os.fdopen(mine_in, "rb"), os.fdopen(mine_out, "wb")
        self.number, self.events, self.rest = 0, [], b""
        target = self("Target.createTarget", url="about:blank", width=1280, height=900)["targetId"]
        self.session = None
        self.session = self("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in "Page", "Runtime", "Log", "Network":
            self(domain + ".enable")

    def message(self):
        while b"\0" not in self.rest:
            more = os.read(self.read.fileno(), 1 << 20)
            if not more:
                raise RuntimeError("the browser has ended")
            self.rest += more
        text, _, self.rest = self.rest.partition(b"\0")
        return json.loads(text)

    def __call__(self, method, **parameters):
        self.number += 1
        call = {"id": self.number, "method": method, "params": parameters}
        if getattr(self, "session", None):
            call["sessionId"] = self.session
        self.write.write(json.dumps(call).encode() + b"\0")
        self.write.flush()
        while True:
            found = self.message()
            if found.get("id") == self.number:
                if "error" in found:
                    raise RuntimeError(f"{method}: {found['error']['message']}")
                return found["result"]
            if "method" in found:
                self.events.append(found)

    def run(self, script):
        """The value of a JavaScript expression, a promise's too."""
        found = self("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in found:
            raise RuntimeError(found["exceptionDetails"]["exception"].get("description", "a script's error"))
        return found["result"].get("value")

    def open(self, url):
        self.events.clear()
        self("Page.navigate", url=url)
        end = time.monotonic() + 60
        while not any(e["method"] == "Page.loadEventFired" for e in self.events):
            found = self.message()
            if "method" in found:
                self.events.append(found)
            if time.monotonic() > end:
                raise RuntimeError(f"{url} does not load")

    def errors(self):
        for e in self.events:
            p = e["params"]
            if e["method"] == "Runtime.exceptionThrown":
                yield "script: " + p["exceptionDetails"].get("exception", {}).get("description", "error")
            elif e["method"] == "Log.entryAdded" and p["entry"]["level"] == "error":
                yield f"log: {p['entry']['text']} {p['entry'].get('url', '')}"
            elif e["method"] == "Network.requestWillBeSent" and p["request"]["url"].startswith("http"):
                yield "asks the network for " + p["request"]["url"]

    def close(self):
        self.process.terminate()
        self.process.wait()
        self.read.close()
        self.write.close()
        shutil.rmtree(self.profile, ignore_errors=True)


#: Text whose contrast is too low, by its colours and its size: as axe has it, each pair of colours once.
CONTRAST = """(() => {
  const probe = document.createElement('canvas').getContext('2d', {willReadFrequently: true});
  const cache = new Map();
  const rgba = text => {
    if (!cache.has(text)) {
      probe.clearRect(0, 0, 1, 1); probe.fillStyle = '#000'; probe.fillStyle = text; probe.fillRect(0, 0, 1, 1);
      cache.set(text, [...probe.getImageData(0, 0, 1, 1).data]);
    }
    return cache.get(text);
  };
  const light = c => { const f = c.slice(0, 3).map(v => (v /= 255) <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
    return 0.2126 * f[0] + 0.7152 * f[1] + 0.0722 * f[2]; };
  const over = (a, b) => { const t = a[3] / 255; return [0, 1, 2].map(k => a[k] * t + b[k] * (1 - t)).concat(255); };
  const grounds = new Map();
  const ground = e => {
    if (!e) return [255, 255, 255, 255];
    if (!grounds.has(e)) {
      const own = rgba(getComputedStyle(e).backgroundColor);
      grounds.set(e, own[3] === 255 ? own : over(own, ground(e.parentElement)));
    }
    return grounds.get(e);
  };
  const found = new Map(), seen = new Set();
  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let n; (n = walk.nextNode());) {
    const e = n.parentElement;
    if (!n.data.trim() || seen.has(e)) continue;
    seen.add(e);
    if (e.closest('script, style, noscript, [aria-hidden=true]')) continue;
    const style = getComputedStyle(e), key = [e.tagName, e.className, style.color, ground(e), style.fontSize].join();
    if (found.has(key)) continue;
    if (!e.checkVisibility({opacityProperty: true, visibilityProperty: true})) continue;
    const back = ground(e), front = over(rgba(style.color), back);
    const a = light(front), b = light(back), ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    const size = parseFloat(style.fontSize), large = size >= 24 || (size >= 18.66 && style.fontWeight >= 700);
    found.set(key, ratio < (large ? 3 : 4.5) ? `contrast ${ratio.toFixed(2)} of '${n.data.trim().slice(0, 30)}' in ${e.tagName}.${e.className}` : null);
  }
  return [...found.values()].filter(Boolean);
})()"""
THEME = "document.body.dataset.theme = '%s'; 0"
#: What is wider than the window without a way to scroll.
TOO_WIDE = """(() => { const e = document.documentElement;
  return e.scrollWidth > e.clientWidth + 1 ? [`is ${e.scrollWidth} wide where ${e.clientWidth} are there`] : []; })()"""


def blank(png):
    """Whether a picture has one colour alone."""
    data, at, parts, width = base64.b64decode(png), 8, b"", 0
    while at < len(data):
        length, kind = int.from_bytes(data[at : at + 4], "big"), data[at + 4 : at + 8]
        if kind == b"IHDR":
            width = int.from_bytes(data[at + 8 : at + 12], "big") * (4 if data[at + 17] == 6 else 3)
        parts += data[at + 8 : at + 8 + length] if kind == b"IDAT" else b""
        at += 12 + length
    raw = zlib.decompress(parts)
    # Rows of one colour are rows of equal differences, whatever their filter.
    return len({raw[k + 1 : k + 1 + width] for k in range(0, len(raw), width + 1)}) < 3


def page_findings(browser, path, name, screenshots):
    browser("Emulation.setDeviceMetricsOverride", width=1280, height=900, deviceScaleFactor=1, mobile=False)
    browser.open(path.resolve().as_uri())
    for theme in "light", "dark":
        browser.run(THEME % theme)
        for wrong in browser.run(CONTRAST):
            yield f"{theme}: {wrong}"
        if theme == "light" or name in ("index.html", "reference/functions-sorting.html"):
            png = browser("Page.captureScreenshot", optimizeForSpeed=True)["data"]
            if blank(png):
                yield "an empty screenshot"
            if screenshots:
                file = screenshots / f"{name.replace('/', '.')}.{theme}.png"
                file.write_bytes(base64.b64decode(png))
    browser("Emulation.setDeviceMetricsOverride", width=375, height=700, deviceScaleFactor=1, mobile=True)
    yield from browser.run(TOO_WIDE)
    if screenshots and name in ("index.html", "reference/functions-sorting.html", "benchmarks.html"):
        png = browser("Page.captureScreenshot", optimizeForSpeed=True)["data"]
        (screenshots / f"{name.replace('/', '.')}.phone.png").write_bytes(base64.b64decode(png))
    yield from browser.errors()


def search_findings(browser, root):
    browser.open((root / "search.html").resolve().as_uri() + "?q=cumulative_trapezoid")
    script = "document.querySelectorAll('#search-results li').length"
    end = time.monotonic() + 30
    while not browser.run(script):
        if time.monotonic() > end:
            yield "search.html", "finds nothing from file://"
            return
        time.sleep(0.1)


def browser_findings(program, root, names, screenshots):
    browser, found = Browser(program), []
    try:
        for name in names:
            found += [(name, wrong) for wrong in page_findings(browser, root / name, name, screenshots)]
        if "index.html" in names:
            found += search_findings(browser, root)
    finally:
        browser.close()
    return found


def main(arguments):
    root = pathlib.Path(arguments[0])
    screenshots = pathlib.Path(arguments[1]) if len(arguments) > 1 else None
    if screenshots:
        screenshots.mkdir(parents=True, exist_ok=True)
    begin, found = time.perf_counter(), list(html_findings(root))
    pages = sorted(p.relative_to(root).as_posix() for p in root.rglob("*.html"))
    print(f"{len(pages)} pages of HTML read ({time.perf_counter() - begin:.0f} s)", flush=True)
    program = next(filter(None, map(shutil.which, BROWSERS)), None)
    if program is None:
        print(f"NO BROWSER ({', '.join(BROWSERS)}): scripts, contrast, widths and pictures are not checked")
    else:
        shown = [p for p in pages if not p.startswith("source/")] + [
            p for p in pages if p.startswith("source/")
        ][:2]
        parts = [shown[k::2] for k in range(2)]
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            for part in pool.map(lambda names: browser_findings(program, root, names, screenshots), parts):
                found += part
        print(f"{len(shown)} pages shown by {program} ({time.perf_counter() - begin:.0f} s)")
    for name, wrong in found:
        print(f"{name}: {wrong}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
