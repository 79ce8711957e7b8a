"""Makes pages and links of the site: the command line's help, the comparison with peers, links of the repository's Markdown."""

import html.parser
import json
import math
import os
import posixpath
import re
import subprocess
import urllib.parse

# ---- The command line, from --help


def help_of(program, *command):
    return subprocess.run([program, *command, "--help"], check=True, capture_output=True, text=True).stdout.rstrip()


def subcommands(text):
    """Name and description, in the order of the help."""
    at = text.upper().find("SUBCOMMANDS:")
    return re.findall(r"^  ([a-z][a-z-]*) +(\S.*)$", text[at:], re.M) if at >= 0 else []


def commands(program, *around):
    """Every command as its words, with its description and its help; a command before those inside of it."""
    for name, description in subcommands(help_of(program, *around)):
        words = [*around, name]
        yield words, description, help_of(program, *words)
        yield from commands(program, *words)


def command_line(program):
    text = "# The command line\n\nWhat `rewright COMMAND --help` says. Every command exits with 0 where it did what was asked, 1 where the answer is no "
    text += "(models differ, a rule is\nrefuted), 2 for wrong usage, 3 for bad input, 4 for something that is missing here. Errors are one line on standard error.\n"
    for words, description, own in commands(program):
        text += f"\n#{'#' * len(words)} {' '.join(words)}\n\n"
        if len(words) == 1:
            text += f"{description}.\n\n"
        text += f"```text\n{own}\n```\n"
    return text


# ---- Beside peers, from bench/results/*.json


def geometric_mean(ratios):
    return math.exp(sum(math.log(r) for r in ratios) / len(ratios))


def read(folder, name):
    with open(os.path.join(folder, name + ".json"), encoding="utf-8") as file:
        return json.load(file)


def row(*cells):
    return "| " + " | ".join(cells) + " |\n"


def comparison(folder):
    """Every number is taken from the measurements that are committed, whose pages say how they were made."""
    text = "# Beside its peers\n\nMade from the committed measurements of `bench/`; each page says how, on which machine and at which commit. Ratios are a peer's time "
    text += "over\nRewright's, medians of rounds in turn: above 1 Rewright is faster.\n\n"

    text += "## The CPU runtime\n\nNetworks as they are, batch 1, floats (all of them: [AVX-512](../bench/results/cpu_peers.md), "
    text += "[AVX2](../bench/results/cpu_peers_avx2.md)):\n\n"
    text += row("instructions", "threads", "networks", "over ONNX Runtime", "over OpenVINO", "over the better of both", "least", "most")
    text += row("---", "---:", "---:", "---:", "---:", "---:", "---:", "---:")
    for instructions, results in (("AVX-512", "cpu_peers"), ("AVX2", "cpu_peers_avx2")):
        peers = read(folder, results)["networks"]
        for threads in sorted({network["threads"] for network in peers}):
            networks = [network for network in peers if network["threads"] == threads]
            ratios = {key: [n[key]["median"] for n in networks if n.get(key)] for key in ("over_onnxruntime", "over_openvino", "over_better")}
            better = ratios["over_better"]
            means = (f"{geometric_mean(r):.2f}" for r in ratios.values())
            text += row(instructions, str(threads), str(len(networks)), *means, f"{min(better):.2f}", f"{max(better):.2f}")
    text += "\nGeometric means.\n\n"

    quantized = read(folder, "cpu_quantized")["networks"]
    text += "Quantized networks, over ONNX Runtime on the same ([all](../bench/results/cpu_quantized.md)):\n\n"
    text += row("network", "activations", "over ONNX Runtime") + row("---", "---", "---:")
    for network in quantized:
        text += row(network["name"], "signed" if network["signed"] else "unsigned", f"{network['over_onnxruntime']['median']:.2f}")

    optimized = read(folder, "optimize_onnxruntime")["networks"]
    text += "\n## What optimizing gains in ONNX Runtime\n\nNetworks in training form, timed in ONNX Runtime with all its own optimizations before and after "
    text += "`rewright optimize --device onnxruntime`\n([how](../bench/results/optimize_onnxruntime.md)):\n\n"
    text += row("network", "nodes", "times as fast") + row("---", "---:", "---:")
    for name, network in optimized.items():
        text += row(name, f"{network['nodes']['before']} → {network['nodes']['after']}", f"{network['speedup']['median']:.2f}")

    training = read(folder, "training")
    text += "\n## Training\n\nA step of training over torch's, on one thread ([how](../bench/results/training.md)):\n\n"
    text += row("network", "batch", "times as fast as torch") + row("---", "---:", "---:")
    for network in training["networks"]:
        text += row(network["network"], str(network["batch"]), f"{network['times_as_fast']:.2f}")
    text += "\nWhat is slower than a peer stands in the same tables; [what it cannot do](limits.md) says the rest.\n"
    return text


# ---- Links

LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\[\]]*\])*)\]\(([^()\s]+)\)")
FENCE = re.compile(r"^(```|~~~).*?^\1[ \t]*$|^(?: {4}|\t)[^\n]*$", re.M | re.S)


def anchors(text):
    """The anchors of the headings, as GitHub makes them."""
    found = set()
    for heading in re.findall(r"^#+ +(.*?) *#*$", FENCE.sub("", text), re.M):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "").lower()
        found.add(re.sub(r"[^\w\- ]", "", plain).replace(" ", "-"))
    return found


def is_elsewhere(target):
    return bool(urllib.parse.urlparse(target).scheme)


def broken_links(root, pages, generated):
    """Relative links in Markdown whose file or heading is not there. `generated`: pages that only the site has."""
    broken = []
    for path, text in pages.items():
        for _, _, target in LINK.findall(FENCE.sub("", text)):
            if is_elsewhere(target):
                continue
            file, _, anchor = target.partition("#")
            to = posixpath.normpath(posixpath.join(posixpath.dirname(path), file)) if file else path
            if to in generated and not anchor:
                continue
            if not os.path.exists(os.path.join(root, to)):
                broken.append(f"{path}: {target}")
            elif anchor and to in pages and anchor not in anchors(pages[to]):
                broken.append(f"{path}: {target} (no such heading)")
    return broken


def within_site(root, path, text, pages):
    """Links to files that are no pages of the site become their names: the site does not carry the source."""
    stands_in = "docs" if path == "index.md" else posixpath.dirname(path)

    def replaced(match):
        image, label, target = match.groups()
        file, _, anchor = target.partition("#")
        if image or is_elsewhere(target) or not file:
            return match.group(0)
        to = posixpath.normpath(posixpath.join(stands_in, file))
        if to == "README.md":
            to = "index.md"
        if to in pages:
            here = posixpath.dirname(path)
            return f"[{label}]({posixpath.relpath(to, here or '.')}{'#' + anchor if anchor else ''})"
        return label if label.strip("`") == to or label.startswith("`") else f"{label} (`{to}`)"

    parts, last = [], 0
    for fence in FENCE.finditer(text):
        parts += [LINK.sub(replaced, text[last:fence.start()]), fence.group(0)]
        last = fence.end()
    return "".join(parts) + LINK.sub(replaced, text[last:])


class Page(html.parser.HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.links, self.names = [], set()
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        attributes = dict(attrs)
        self.names.update(attributes[key] for key in ("id", "name") if attributes.get(key))
        for key in ("href", "src"):
            if attributes.get(key):
                self.links.append(attributes[key])


def broken_pages(folder):
    """Links of the finished site that lead nowhere in it."""
    pages = {}
    for here, _, files in os.walk(folder):
        for name in files:
            if name.endswith(".html"):
                with open(os.path.join(here, name), encoding="utf-8") as file:
                    pages[os.path.join(here, name)] = Page(file.read())
    broken = []
    for path, page in pages.items():
        for link in page.links:
            parts = urllib.parse.urlparse(link)
            if parts.scheme or parts.netloc:
                continue
            to = os.path.normpath(os.path.join(os.path.dirname(path), urllib.parse.unquote(parts.path))) if parts.path else path
            if not os.path.exists(to) or (parts.fragment and to in pages and urllib.parse.unquote(parts.fragment) not in pages[to].names):
                broken.append(f"{os.path.relpath(path, folder)}: {link}")
    return sorted(set(broken))


# ---- C and C++

# Plain comments become Doxygen's: those that stand alone before what they are about, and those behind a member. A structure's second
# name, which C alone needs, would be one too many; so would the inline namespace, which is the linker's business.
FILTER = "sed -E " + " ".join(f"-e '{edit}'" for edit in (
    r"1s@^/\* (.*)@/** \\file\n * \1@", r"1s@^// (.*)@/// \\file\n/// \1@", r"/^(\/\*|\/\/) ---- /d",
    r"s@^( *)/\* @\1/** @", r"s@([;,]) +/\* @\1 /**< @", r"s@^( *)// @\1/// @", r"s@([;,]) +// @\1 ///< @",
    r"s@^typedef (struct|enum) (\w+) \{@\1 \2 {@", r"s@^\} \w+;@};@", r"/namespace v0/d"))


def run_doxygen(site, headers, output):
    os.makedirs(output, exist_ok=True)
    with open(os.path.join(site, "Doxyfile"), encoding="utf-8") as file:
        settings = file.read()
    settings += f'\nOUTPUT_DIRECTORY = "{output}"\nINPUT = {" ".join(chr(34) + header + chr(34) for header in headers)}\n'
    settings += 'INPUT_FILTER = "' + FILTER + '"\n'
    subprocess.run(["doxygen", "-"], input=settings, text=True, check=True, stdout=subprocess.DEVNULL)
