// For one source of a test program that draws: what the leak sanitizer is not to complain about.
#pragma once

#ifdef REWRIGHT_SANITIZED
// Graphviz keeps buffers of its own until the program ends.
extern "C" const char* __lsan_default_suppressions();
extern "C" const char* __lsan_default_suppressions() { return "leak:libgvc"; }
#endif
