"""Each type has one definition: python one_definition.py SOURCE

Two types of one name in one namespace break the one-definition rule as soon as both are linked, and no compiler says so. Formatting
puts what stands in namespaces at the beginning of its line, so that files can be read as text.
"""

import collections
import pathlib
import re
import subprocess
import sys
import unittest

SOURCE = pathlib.Path(sys.argv.pop(1)) if len(sys.argv) > 1 else pathlib.Path.cwd()
NAMESPACE = re.compile(r"^(?:inline )?namespace ?([\w:]*) \{")
END = re.compile(r"^\}  // (?:inline )?namespace")
DEFINITION = re.compile(r"^(?:struct|class|union|enum(?: class)?) (?:alignas\([^)]*\) )?(\w+)(?: final)?(?: :[^;]*)? \{")


def definitions(text):
    """(namespace, name) of the types that other files could see."""
    around = []
    for line in text.splitlines():
        if match := NAMESPACE.match(line):
            around.append(match[1])
        elif END.match(line):
            around.pop()
        elif (match := DEFINITION.match(line)) and "" not in around:
            yield "::".join(around), match[1]


def sources():
    names = subprocess.run(["git", "ls-files", "*.h", "*.cc"], cwd=SOURCE, check=True, capture_output=True, text=True).stdout.split()
    return [name for name in names if (SOURCE / name).exists()]


class OneDefinition(unittest.TestCase):
    def test_of_each_type(self):
        files = collections.defaultdict(set)
        for name in sources():
            for type in definitions((SOURCE / name).read_text(encoding="utf-8")):
                files[type].add(name)
        several = {"::".join(type): sorted(names) for type, names in files.items() if len(names) > 1}
        self.assertEqual(several, {})
        self.assertIn(("rewright::graph", "Graph"), files)

    def test_what_is_found(self):
        text = "namespace a {\nnamespace {\nstruct Hidden {\n};\n}  // namespace\nclass B final : public C {\n};\nstruct D;\n}  // namespace a\nenum class E {\n"
        self.assertEqual(list(definitions(text)), [("a", "B"), ("", "E")])


if __name__ == "__main__":
    unittest.main()
