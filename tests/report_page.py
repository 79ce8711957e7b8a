#!/usr/bin/env python3
"""The pages of `optimize --report` and `plan --report`, in a browser: they load without errors and without a network, draw all nodes, find them; the first can be
used by keyboard, on a phone and in the dark, and gives the certificate back. Usage: report_page.py REWRIGHT CHROMIUM"""

import base64
import json
import os
import subprocess
import sys
import tempfile

import numpy
import onnx
from onnx import TensorProto, helper
from playwright.sync_api import sync_playwright

REWRIGHT, CHROMIUM = sys.argv[1:3]
PROFILE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "docs", "profiles", "gpu.profile")
NAME = '<img src="x" onerror="alert(1)">'

# The number of colours of an image, with 4 bits a channel.
COLOURS = """async (picture) => {
  const image = new Image();
  image.src = picture;
  await image.decode();
  const canvas = document.createElement('canvas');
  canvas.width = image.width;
  canvas.height = image.height;
  const context = canvas.getContext('2d');
  context.drawImage(image, 0, 0);
  const seen = new Set();
  const data = context.getImageData(0, 0, image.width, image.height).data;
  for (let i = 0; i < data.length; i += 4) seen.add((data[i] >> 4) << 8 | (data[i + 1] >> 4) << 4 | data[i + 2] >> 4);
  return seen.size;
}"""


def run(*arguments):
    subprocess.run([REWRIGHT, *arguments, "--quiet"], check=True)


def page_of(folder, model):
    """The page, the report as JSON and the certificate of a model."""
    files = [os.path.join(folder, name) for name in ("out.onnx", "page.html", "report.json", "certificate.json")]
    run("optimize", model, "-o", files[0], "--device", f"profile:{PROFILE}", "--budget", "5s", "--check", "0", "--report", files[1], "--json",
        files[2], "--certificate", files[3])
    with open(files[2], encoding="utf-8") as report, open(files[3], encoding="utf-8") as certificate:
        return files[1], json.load(report), certificate.read()


def hostile_model(file):
    """Its names would do something if a page took them for HTML."""
    weight = helper.make_tensor("w", TensorProto.FLOAT, [4, 4], numpy.ones(16, numpy.float32))
    nodes = [helper.make_node("MatMul", ["x", "w"], [NAME], name=NAME), helper.make_node("Relu", [NAME], ["y"], name="</script>")]
    graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [4, 4])],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, [4, 4])], [weight])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10), file)


class Browser:
    def __init__(self, browser, width=1300, dark=False):
        self.context = browser.new_context(viewport={"width": width, "height": 850}, color_scheme="dark" if dark else "light",
                                           reduced_motion="reduce")
        self.page = self.context.new_page()
        self.errors, self.requests = [], []
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.on("console", lambda message: self.errors.append(message.text) if message.type == "error" else None)
        self.page.on("request", lambda request: self.requests.append(request.url))

    def open(self, file):
        self.page.goto("file://" + file)
        self.page.wait_for_selector("body[data-ready=yes]", timeout=60000)
        assert not self.errors, self.errors
        assert len(self.requests) == 1, self.requests
        return self.page

    def close(self):
        assert not self.errors, self.errors
        self.context.close()


def colours(page, selector):
    picture = base64.b64encode(page.locator(selector).screenshot()).decode()
    return page.evaluate(COLOURS, "data:image/png;base64," + picture)


def plan_page(folder, model):
    """The page of a plan for four processes in two groups, and its facts."""
    machine, page, facts = (os.path.join(folder, name) for name in ("machine.json", "plan.html", "plan.json"))
    link = {"latency": 1e-6, "bytes_per_second": 1e10, "shape": "switch"}
    with open(machine, "w", encoding="utf-8") as file:
        json.dump({"devices": {"count": 4, "per_node": 2, "operations_per_second": 1e10, "bytes_per_second": 1e10, "memory": 1e9},
                   "links": {"node": link, "cluster": link}}, file)
    run("plan", model, "--machine", machine, "--for", "inference", "-o", os.path.join(folder, "m.plan"), "--strategy", "data+tensor", "--report", page,
        "--json", facts)
    with open(facts, encoding="utf-8") as file:
        return page, json.load(file)


def check_plan(browser, file, facts):
    window = Browser(browser)
    page = window.open(file)
    page.click("#unfold")
    drawn = page.locator("#graph g.node").count()
    assert drawn == page.evaluate("report.drawing.regions.reduce((n, r) => n + r.nodes.length, 0)") > 0
    for part in ("#graph svg", "#timeline"):
        assert colours(page, part) > 3, part
    assert page.locator("#timeline text.name").count() == facts["processes"]
    assert page.locator("#timeline rect").count() > facts["processes"]
    # A button finds the nodes that are cut so.
    page.click("#kinds .kind")
    assert page.inner_text("#found").startswith("1 of")
    assert page.inner_text("#details h3")
    assert page.locator("#cuts tbody tr").count() > 0
    assert page.locator("img").count() == 0  # names of the model
    window.close()


def check_desktop(browser, file, report, certificate):
    window = Browser(browser)
    page = window.open(file)
    page.click("#unfold")
    drawn = page.evaluate("Object.fromEntries(['before', 'after'].map((s) => [s, document.querySelectorAll(`#${s} g.node`).length]))")
    left_out = page.evaluate("({before: report.before.left_out, after: report.after.left_out})")
    for side in ("before", "after"):
        assert drawn[side] + left_out[side] == report["nodes"][side], (side, drawn, left_out, report["nodes"])
    changed = page.evaluate("document.querySelectorAll('#after g.node.changed').length")
    assert (changed > 0) == report["changed"], (changed, report["changed"])

    # Nothing is empty.
    for part in ("#before svg", "#after svg", "#operators", "#roofline", "#memory", "#curve"):
        assert colours(page, part) > 3, part
    assert page.locator("#operators .bar").count() > 1
    assert page.locator("#memory .line").count() == 2

    # Search, then by keyboard alone.
    page.keyboard.press("/")
    page.keyboard.type("conv")
    found = int(page.inner_text("#found").split(" of ")[1])
    assert found == page.evaluate("[...views.before.nodes, ...views.after.nodes].filter((n) => n.text.includes('conv')).length")
    first = page.inner_text("#details h3")
    page.keyboard.press("Enter")
    assert page.inner_text("#found").startswith("2 of")
    assert page.inner_text("#details h3") != first
    box = page.locator("#before .node.selected").bounding_box()
    panel = page.locator("#before svg").bounding_box()
    assert panel["x"] < box["x"] + box["width"] / 2 < panel["x"] + panel["width"], (panel, box)
    page.focus("#before svg")
    before = page.inner_text("#details h3")
    page.keyboard.press("ArrowDown")
    assert page.inner_text("#details h3") != before
    page.keyboard.press("ArrowUp")
    assert page.inner_text("#details h3") == before
    page.keyboard.press("Escape")
    assert page.inner_text("#details") == ""
    page.fill("#search", "there is no such node")
    assert page.inner_text("#found") == "nothing"

    page.click("#fold")
    assert page.locator("#before g.node").count() == 0
    regions = page.locator("#before .region.folded")
    assert regions.count() == page.evaluate("report.before.regions.length")
    regions.first.locator("rect").click()
    assert page.locator("#before g.node").count() > 0

    # Rewrites: all are there, with their rules.
    rules = report["search"]["rules_applied"]
    assert page.evaluate("report.steps.reduce((n, s) => n + s.rewrites.length, 0)") == len(rules)
    for step in page.locator(".step").all():
        step.locator("summary").click()
        step.locator(".body").wait_for()
    shown = " ".join(page.locator(".rule h4").all_inner_texts())
    for rule in rules:
        assert rule["rule"] in shown, rule
    if rules:
        assert "=>" in page.locator(".rule pre").first.inner_text()
        assert "proved" in page.locator(".rule").first.inner_text()

    with page.expect_download() as download:
        page.click("#save-certificate")
    with open(download.value.path(), encoding="utf-8") as saved:
        assert saved.read() == certificate
    window.close()


def check_other_screens(browser, file):
    phone = Browser(browser, width=390)
    page = phone.open(file)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    assert page.locator("#after svg").bounding_box()["y"] > page.locator("#before svg").bounding_box()["y"] + 200
    phone.close()
    brightness = []
    for dark in (False, True):
        window = Browser(browser, dark=dark)
        colour = window.open(file).evaluate("getComputedStyle(document.body).backgroundColor")
        brightness.append(sum(int(part) for part in colour[4:-1].split(",")[:3]))
        window.close()
    assert brightness[0] > 600 > 200 > brightness[1], brightness


def main():
    with sync_playwright() as playwright, tempfile.TemporaryDirectory() as folder:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        model = os.path.join(folder, "model.onnx")
        for name in ("squeezenet", "inception_block"):
            run("models", "build", name, "-o", model)
            file, report, certificate = page_of(folder, model)
            check_desktop(browser, file, report, certificate)
        check_other_screens(browser, file)
        hostile_model(model)
        window = Browser(browser)
        page = window.open(page_of(folder, model)[0])
        assert page.locator("img").count() == 0
        page.fill("#search", "onerror")
        assert page.inner_text("#details h3") == NAME
        window.close()
        check_plan(browser, *plan_page(folder, model))
        browser.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
