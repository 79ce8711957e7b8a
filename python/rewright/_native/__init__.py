"""The compiled files: the extension module, the program and the libraries that they need."""

import os

# Graphviz looks for its layouts in the folder that it was built for, if it is told no other.
_layouts = os.path.join(os.path.dirname(os.path.abspath(__file__)), "graphviz")
if os.path.isdir(_layouts):
    os.environ.setdefault("GVBINDIR", _layouts)
