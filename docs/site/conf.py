"""Sphinx's settings. The pages lie in the folder that tools/docs put together: the repository's own Markdown, and what is generated."""

import os
import re

project = "Rewright"
author = "the Rewright authors"
copyright = "the Rewright authors, Apache-2.0"  # Sphinx asks for this name
version = release = os.environ["REWRIGHT_VERSION"]
extensions = ["myst_parser", "breathe", "sphinx.ext.autodoc"]
autodoc_member_order = "bysource"
autodoc_typehints = "description"

source_suffix = {".md": "markdown"}
myst_heading_anchors = 4
myst_enable_extensions = ["colon_fence"]
breathe_projects = {"rewright": os.environ["REWRIGHT_DOXYGEN"]}
breathe_default_project = "rewright"
breathe_domain_by_extension = {"h": "cpp"}
breathe_domain_by_file_pattern = {"*rewright_c.h": "c"}
breathe_show_include = False
highlight_language = "none"
nitpicky = False

html_theme = "furo"
html_title = "Rewright"
html_show_sphinx = False
html_copy_source = False
default_role = "code"


def begins_another(run, line):
    """Does the line end the run before it? Parameters go on in indented lines."""
    indented, code, field = line.startswith("  "), run[0].startswith("  "), FIELD.match(run[0]) is not None
    if not line.strip() or (code and not indented):
        return True
    return (indented and not code and not field) or (FIELD.match(line) is not None and not field)


def paragraphs(lines):
    """Runs of lines that are alike; empty ones end them."""
    run, runs = [], []
    for line in [*lines, ""]:
        if run and begins_another(run, line):
            runs.append(run)
            run = []
        if line.strip():
            run.append(line)
    return runs


FIELD = re.compile(r"^(\w+): (.*)$")


def docstring(app, what, name, obj, options, lines):
    """Docstrings are plain text: `name: what it is` is a parameter, what is indented is code."""
    made = []
    for run in paragraphs(lines):
        if FIELD.match(run[0]) and what in ("function", "method", "class"):
            for line in run:
                field = FIELD.match(line)
                if field:
                    made.append(f":param {field.group(1)}: {field.group(2)}")
                else:
                    made.append("    " + line.strip())
        elif run[0].startswith("  "):
            made += ["::", ""] + ["    " + line for line in run]
        else:
            made += run
        made.append("")
    lines[:] = made


def setup(app):
    app.connect("autodoc-process-docstring", docstring)
