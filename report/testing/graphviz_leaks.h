// Leak-sanitizer suppressions. Included by one source of each test program that draws.
#pragma once

#ifdef REWRIGHT_SANITIZED
// Graphviz keeps its own buffers until the program ends.
extern "C" const char* __lsan_default_suppressions();
extern "C" const char* __lsan_default_suppressions() { return "leak:libgvc"; }
#endif
