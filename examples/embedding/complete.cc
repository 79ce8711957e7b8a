// Lets a language model go on with a text of token numbers, the most likely ones: complete FOLDER TOKENS TOKEN ...
#include <rewright.h>

#include <cstdio>
#include <cstdlib>

int main(int argc, char** argv) {
  if (argc < 4) return std::fprintf(stderr, "usage: complete FOLDER TOKENS TOKEN ...\n"), 2;
  try {
    std::vector<std::int64_t> prompt;
    for (int i = 3; i < argc; ++i) prompt.push_back(std::atoll(argv[i]));
    const rewright::LanguageModel model(argv[1]);
    rewright::Generation text = model.generate({prompt}, {{"max-tokens", argv[2]}, {"temperature", "0"}});
    for (std::vector<std::int64_t> tokens = text.next(); !tokens.empty(); tokens = text.next())
      std::printf("%lld ", static_cast<long long>(tokens[0]));
    std::printf("\n");
    return 0;
  } catch (const rewright::Failure& failure) {
    return std::fprintf(stderr, "%s: %s (%s)\n", failure.where().c_str(), failure.what(), failure.hint().c_str()), 3;
  }
}
