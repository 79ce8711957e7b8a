"""ONNX Runtime's inner modules, as far as programs import from them: exceptions above all.

Modules here name the package in full: a program may have entered it as `onnxruntime` in sys.modules, and these would be loaded
a second time under that name, of which nothing may follow for what they import.
"""
