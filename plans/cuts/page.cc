// Writes the page of cuts to standard output: build/release/bin/rewright_cuts_page > docs/cuts.md
#include <iostream>

#include "plans/cuts/examples.h"

int main() { std::cout << rewright::plans::cuts_page(); }
