"""No file is left over: python used_files.py SOURCE

Every source is compiled by a CMakeLists.txt, every header is included by another file, every script of tests/ is run, and every Python
file is used by another one, by CMake or by people.
"""

import ast
import collections
import pathlib
import re
import subprocess
import sys
import unittest

SOURCE = pathlib.Path(sys.argv.pop(1)) if len(sys.argv) > 1 else pathlib.Path.cwd()

INCLUDE = re.compile(r'^\s*#\s*include "([^"]+)"', re.MULTILINE)
COMMENT = re.compile(r"(?<!\S)#.*")
WORD = re.compile(r"[\w./+-]+")
TEMPLATE = re.compile(r"(?<![\w}/])([\w/]*)\$\{\w+\}([\w.]+)(?![\w$])")
# Headers of the library's users: installed, and included by programs elsewhere.
PUBLIC = {"api/rewright.h", "api/rewright_c.h"}


def git_files():
    names = subprocess.run(["git", "ls-files"], cwd=SOURCE, check=True, capture_output=True, text=True).stdout.splitlines()
    return [name for name in names if (SOURCE / name).is_file()]


def read(name):
    return (SOURCE / name).read_text(encoding="utf-8", errors="replace")


def folder_of(name):
    return name.rpartition("/")[0]


def words_of_cmake(text):
    """All words, and those that a function makes of its arguments: ${name}.cc of a name."""
    text = COMMENT.sub("", text)
    words = {word.lstrip("/") for word in WORD.findall(text)}  # ${FOLDER}/file is one, too
    return words.union(*({before + word + after for word in words} for before, after in TEMPLATE.findall(text)))


def is_listed(name, lists):
    """Whether a CMakeLists.txt of the file's folder or of one around it names it. `lists` has the words of each, by folder."""
    folder = folder_of(name)
    while True:
        inside = name[len(folder) + 1 :] if folder else name
        if {inside, name} & lists.get(folder, set()):
            return True
        if not folder:
            return False
        folder = folder_of(folder)


def unlisted_sources(names, lists):
    return [name for name in names if name.endswith(".cc") and not is_listed(name, lists)]


def unincluded_headers(texts, lists):
    """Headers that no other file includes, and no CMakeLists.txt makes a source of."""
    users = {}
    for name, text in texts.items():
        for included in INCLUDE.findall(text):
            users.setdefault(included, set()).add(name)
            users.setdefault(folder_of(name) + "/" + included, set()).add(name)
    headers = [name for name in texts if name.endswith(".h") and name not in PUBLIC]
    return [name for name in headers if not users.get(name, set()) - {name} and not is_listed(name, lists)]


def imported_modules(text):
    """The parts of their names."""
    found = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            found.update(*(alias.name.split(".") for alias in node.names))
        elif isinstance(node, ast.ImportFrom):
            found.update((node.module or "").split("."), *(alias.name.split(".") for alias in node.names))
    return found - {""}


def python_words(text):
    """Imported modules, and the words of strings: modules may be loaded by name."""
    strings = [node.value for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Constant) and isinstance(node.value, str)]
    return imported_modules(text).union(*(re.findall(r"\w+", string) for string in strings))


def is_python(name):
    if name.endswith(".py"):
        return True
    if "." in name.rpartition("/")[2] or not is_executable(name):
        return False
    return "python" in read(name).partition("\n")[0]


def is_executable(name):
    return bool((SOURCE / name).stat().st_mode & 0o100)


class UsedFiles(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.names = git_files()
        cls.documented = {pathlib.Path(word).stem for name in cls.names if name.endswith(".md") for word in WORD.findall(read(name))}
        cls.lists = {folder_of(name): words_of_cmake(read(name)) for name in cls.names if name.endswith("CMakeLists.txt")}

    def test_sources_are_compiled(self):
        self.assertEqual(unlisted_sources(self.names, self.lists), [])

    def test_headers_are_included(self):
        texts = {name: read(name) for name in self.names if name.endswith((".h", ".cc", ".c", ".in"))}
        self.assertEqual(unincluded_headers(texts, self.lists), [])

    def test_scripts_of_tests_are_run(self):
        """By CTest, or imported by one that is, or by people, to whom the documentation names it."""
        files = [name for name in self.names if re.fullmatch(r"tests/[^/]+\.(py|cmake)", name)]
        imported = {word for name in files if name.endswith(".py") for word in imported_modules(read(name))}
        left = [name for name in files if not is_listed(name, self.lists) and pathlib.Path(name).stem not in imported | self.documented]
        self.assertEqual(left, [])

    def test_python_is_used(self):
        """It is imported or named by another script, a CMakeLists.txt or the documentation, or is a program."""
        words = {name: python_words(read(name)) for name in self.names if is_python(name)}
        words |= {name: set(re.findall(r"\w+", read(name))) for name in self.names if is_executable(name) and name not in words}
        users = collections.defaultdict(set)
        for name, found in words.items():
            for word in found:
                users[word].add(name)
        modules = [name for name in self.names if name.endswith(".py") and not is_executable(name)]
        known = self.documented | {"__init__", "__main__", "conf"}  # the last ones to Python and to Sphinx
        left = [name for name in modules if not users[pathlib.Path(name).stem] - {name} and not is_listed(name, self.lists)]
        self.assertEqual([name for name in left if pathlib.Path(name).stem not in known], [])

    def test_what_is_found(self):
        text = "add(b.cc # e.cc\n sub/c.cc)\nmake(f)\nset(a/${name}_impl.h python_${story}.cc ${HERE}/g.cc)"
        lists = {"a": words_of_cmake(text), "": {"d.cc"}}
        sources = ["a/b.cc", "a/sub/c.cc", "d.cc", "a/e.cc", "a/sub/b.cc", "a/python_f.cc", "a/g.cc"]
        self.assertEqual(unlisted_sources(sources, lists), ["a/e.cc", "a/sub/b.cc"])
        texts = {"a/x.h": "", "a/y.h": '#include "a/y.h"\n', "a/f_impl.h": "", "a/x.cc": '#include "a/x.h"\n// #include "a/y.h"\n'}
        self.assertEqual(unincluded_headers(texts, lists), ["a/y.h"])
        self.assertEqual(python_words("import a.b\nfrom . import c\nfrom d import e\nf('g')"), {"a", "b", "c", "d", "e", "g"})


if __name__ == "__main__":
    unittest.main()
