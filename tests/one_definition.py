"""Each type and function has one definition: python one_definition.py SOURCE

Two types or functions of one name in one namespace break the one-definition rule as soon as both are linked. No compiler reports it,
and of two functions in archives the linker silently uses the first. Formatting puts everything in namespaces at the beginning of its
line, so files can be read as text.
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
TYPE = re.compile(r"^(?:struct|class|union|enum(?: class)?) (?:alignas\([^)]*\) )?(\w+)(?: final)?(?: :[^;]*)? \{")
FUNCTION = re.compile(r"^((?:template <.*?> )?(?!static )[\w:<>,*& \[\]]*?[ *&>])(\w+)\(((?:[^()]|\((?:[^()]|\([^()]*\))*\))*)\)[^;=]*\{")
NO_FUNCTION = re.compile(r"^(?:[ }#/]|struct |class |union |enum |using |static |extern |TEST_CASE|static_assert)")


def type_of(parameter):
    """The type of a parameter that is written as "const T& name = value"."""
    parameter = parameter.split(" = ")[0].strip()
    return re.sub(r"(?<=[ &*>])\w+$", "", parameter).strip() if " " in parameter or "&" in parameter else parameter


def signature(text):
    """A function definition without its parameters' names; None for another text."""
    match = FUNCTION.match(text)
    if not match:
        return None
    parameters, depth = [""], 0
    for c in match[3]:
        depth += (c in "<(") - (c in ">)")
        if c == "," and depth == 0:
            parameters.append("")
        else:
            parameters[-1] += c
    template = match[1] if match[1].startswith("template") else ""
    return f"{template}{match[2]}({', '.join(map(type_of, parameters))})"


def definitions(text):
    """(namespace, name or signature) of the types and functions that other files could see."""
    around, statement = [], ""
    for line in text.splitlines():
        line = line.split("  //")[0] if not END.match(line) else line
        if match := NAMESPACE.match(line):
            around.append(match[1])
        elif END.match(line):
            around.pop()
        elif "" in around:
            continue
        elif match := TYPE.match(line):
            yield "::".join(around), match[1]
        elif statement or not NO_FUNCTION.match(line):
            statement += line.strip() + " "
            if "{" in line or ";" in line:
                if around and (function := signature(statement)):
                    yield "::".join(around), function
                statement = ""
            elif not line or line.startswith("}"):
                statement = ""


def sources():
    names = subprocess.run(["git", "ls-files", "*.h", "*.cc"], cwd=SOURCE, check=True, capture_output=True, text=True).stdout.split()
    return [name for name in names if (SOURCE / name).exists()]


class OneDefinition(unittest.TestCase):
    def test_of_each_name(self):
        files = collections.defaultdict(set)
        for name in sources():
            for definition in definitions((SOURCE / name).read_text(encoding="utf-8")):
                files[definition].add(name)
        several = {"::".join(definition): sorted(names) for definition, names in files.items() if len(names) > 1}
        self.assertEqual(several, {})
        self.assertIn(("rewright::graph", "Graph"), files)
        self.assertGreater(sum("(" in name for _, name in files), 1000)

    def test_what_is_found(self):
        text = "namespace a {\nnamespace {\nstruct Hidden {\n};\n}  // namespace\nclass B final : public C {\n};\nstruct D;\n}  // namespace a\nenum class E {\n"
        self.assertEqual(list(definitions(text)), [("a", "B"), ("", "E")])
        text = "namespace a {\ninline int f(const std::map<int, int>& x,\n             B y = {}) {\n  return 1;\n}\nint g(int);\nint A::h() { return 0; }\nstatic int i() {\n}  // namespace a\n"
        self.assertEqual(list(definitions(text)), [("a", "f(const std::map<int, int>&, B)")])


if __name__ == "__main__":
    unittest.main()
