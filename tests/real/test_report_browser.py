"""The demo's report in a real browser: nothing fetched, nothing in the console, readable in light and in dark."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from matplotlib.image import imread

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
SCHEMES = {"light": [], "dark": ["--blink-settings=preferredColorScheme=0"]}
#: WCAG 2.2, success criteria 1.4.3 (text) and 1.4.11 (graphics).
TEXT_CONTRAST, LARGE_TEXT_CONTRAST, GRAPHIC_CONTRAST = 4.5, 3.0, 3.0

pytestmark = [pytest.mark.real, pytest.mark.slow]

#: Put into a copy of the page (the page itself has no script): measures contrast from computed styles.
PROBE = """
<script>
addEventListener("load", () => {
  const part = v => { v /= 255; return v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; };
  const light = c => 0.2126 * part(c[0]) + 0.7152 * part(c[1]) + 0.0722 * part(c[2]);
  const rgb = text => (text.match(/[\\d.]+/g) || []).map(Number);
  const ratio = (a, b) => {
    const [x, y] = [light(a), light(b)].sort((p, q) => q - p);
    return (x + 0.05) / (y + 0.05);
  };
  const paper = node => {
    for (; node; node = node.parentElement) {
      const c = rgb(getComputedStyle(node).backgroundColor);
      if (c.length === 3 || c[3] > 0.99) return c;
    }
    return [255, 255, 255];
  };
  const found = { texts: 0, poor: [], marks: 0, poorMarks: [], wide: document.documentElement.scrollWidth,
                  dark: matchMedia("(prefers-color-scheme: dark)").matches };
  for (const node of document.body.querySelectorAll("*")) {
    if (!node.getClientRects().length) continue;
    const style = getComputedStyle(node), svg = node.namespaceURI.endsWith("svg");
    const own = [...node.childNodes].some(n => n.nodeType === 3 && n.data.trim());
    if (own && !["title", "desc"].includes(node.localName)) {
      found.texts++;
      const size = parseFloat(style.fontSize), large = size >= 24 || (size >= 18.66 && +style.fontWeight >= 700);
      const r = ratio(rgb(svg ? style.fill : style.color), paper(node.closest("svg") || node));
      if (r < (large ? LARGE : TEXT)) found.poor.push([node.textContent.trim().slice(0, 40), +r.toFixed(2)]);
    }
    if (svg && node.matches(".line:not(.guide), .axis, .dot")) {
      found.marks++;
      const r = ratio(rgb(style.stroke), paper(node.closest("svg")));
      if (r < GRAPHIC) found.poorMarks.push([node.getAttribute("class"), +r.toFixed(2)]);
    }
  }
  const out = document.createElement("pre");
  out.id = "probe"; out.textContent = JSON.stringify(found); document.body.replaceChildren(out);
});
</script>
"""


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("report")
    launcher = Path(sys.executable).parent / "schedmate"
    words = [str(launcher), "demo", "--jobs", "120", "--seed", "4", "--out", str(folder / "out")]
    done = subprocess.run(words, capture_output=True, text=True, timeout=180)
    assert done.returncode == 0, done.stderr
    return folder / "out" / "report.html"


def _browse(
    page: Path, profile: Path, *words: str, width: int = 1280, height: int = 2000
) -> subprocess.CompletedProcess[bytes]:
    if CHROMIUM is None:
        raise AssertionError("call need() first")
    return subprocess.run(
        [
            CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
            "--hide-scrollbars", "--disable-background-networking", "--disable-component-update", "--disable-sync",
            "--enable-logging=stderr",
            f"--user-data-dir={profile}", f"--window-size={width},{height}", *words, page.as_uri(),
        ],
        capture_output=True,
        timeout=120,
    )  # fmt: skip


@pytest.fixture(autouse=True)
def _chromium() -> None:
    from importlib.util import module_from_spec, spec_from_file_location

    spec = spec_from_file_location("shared_conftest", Path(__file__).parents[1] / "conftest.py")
    assert spec is not None and spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    module.need(CHROMIUM, "no Chromium on this machine")


def _console(done: subprocess.CompletedProcess[bytes]) -> list[str]:
    return [line for line in done.stderr.decode("utf-8", "replace").splitlines() if "CONSOLE" in line]


def _fetched(page: Path, folder: Path) -> tuple[subprocess.CompletedProcess[bytes], list[str]]:
    """Addresses that the page asked for; what the browser asks for on its own account has no initiator."""
    net = folder / "net.json"
    nowhere = "--host-resolver-rules=MAP * ~NOTFOUND"
    done = _browse(page, folder / "profile", f"--log-net-log={net}", nowhere, "--dump-dom")
    events = [json.JSONDecoder().raw_decode(line)[0] for line in net.read_text().splitlines() if '"initiator"' in line]
    asked = [event["params"] for event in events]
    return done, [ask["url"] for ask in asked if ask["initiator"] != "not an origin" and ask["url"].startswith("http")]


def test_nothing_is_fetched_and_the_console_is_silent(report: Path, tmp_path: Path) -> None:
    done, fetched = _fetched(report, tmp_path)
    dom = done.stdout.decode()
    assert _console(done) == []
    assert fetched == []
    for words in ("Synthetic workload", "seed 4", "Why jobs failed", "Dismissed as echoes"):
        assert words in dom
    assert dom.count("<svg") >= 6 and "<mark>" in dom


def test_a_fetch_would_be_seen(tmp_path: Path) -> None:
    page = tmp_path / "fetching.html"
    page.write_text('<img src="http://pictures.example/a.png"><script>console.error("seen")</script>')
    done, fetched = _fetched(page, tmp_path)
    assert fetched == ["http://pictures.example/a.png"]
    assert any("seen" in line for line in _console(done))


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("width", [1280, 500])
def test_contrast_is_enough(report: Path, tmp_path: Path, scheme: str, width: int) -> None:
    probe = PROBE.replace("LARGE", str(LARGE_TEXT_CONTRAST)).replace("TEXT", str(TEXT_CONTRAST))
    probe = probe.replace("GRAPHIC", str(GRAPHIC_CONTRAST))
    page = re.sub(r'<meta http-equiv="Content-Security-Policy"[^>]*>', "", report.read_text(encoding="utf-8"))
    copy = tmp_path / "probe.html"
    copy.write_text(page.replace("</head>", probe + "</head>"), encoding="utf-8")
    done = _browse(copy, tmp_path / "profile", *SCHEMES[scheme], "--dump-dom", width=width)
    told = re.search(r'<pre id="probe">(.*?)</pre>', done.stdout.decode(), re.S)
    assert told, done.stderr.decode()[-2000:]
    found = json.loads(told[1].replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&"))
    assert found["dark"] is (scheme == "dark")
    assert found["texts"] > 200 and found["marks"] > 10
    assert found["poor"] == []
    assert found["poorMarks"] == []
    assert found["wide"] <= width, "the page itself must not scroll sideways"


@pytest.mark.parametrize("scheme", SCHEMES)
def test_paper_is_light_or_dark_on_the_screen(report: Path, tmp_path: Path, scheme: str) -> None:
    picture = tmp_path / "page.png"
    _browse(report, tmp_path / "profile", *SCHEMES[scheme], f"--screenshot={picture}", height=1000)
    grey = imread(picture)[:, :, :3].mean(axis=2)
    assert np.median(grey) > 0.92 if scheme == "light" else np.median(grey) < 0.18
    assert np.ptp(grey) > 0.6, "there must be something to read"


def test_prints(report: Path, tmp_path: Path) -> None:
    pdf = tmp_path / "page.pdf"
    _browse(report, tmp_path / "profile", f"--print-to-pdf={pdf}", "--no-pdf-header-footer")
    data = pdf.read_bytes()
    assert data.startswith(b"%PDF")
    assert 2 <= data.count(b"/Type /Page\n") + data.count(b"/Type /Page ") + data.count(b"/Type /Page/") <= 25
