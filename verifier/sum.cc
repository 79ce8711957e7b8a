#include "verifier/sum.h"

namespace rewright::proof {

namespace {

Factor replaced_in_factor(const Factor& factor, const Replacements& replacements) {
  Factor result = factor;
  result.position = replaced(factor.position, replacements);
  result.index = replaced(factor.index, replacements);
  for (Sum& argument : result.arguments) argument = replaced(argument, replacements);
  for (MaximumElement& e : result.elements) {
    e.guards = replaced(e.guards, replacements);
    e.value = replaced(e.value, replacements);
  }
  return result;
}

}  // namespace

Term replaced(const Term& term, const Replacements& replacements) {
  Term result{term.coefficient, term.bound, replaced(term.guards, replacements), {}, replaced(term.trace, replacements)};
  for (const Factor& f : term.factors) result.factors.push_back(replaced_in_factor(f, replacements));
  return result;
}

Sum replaced(const Sum& sum, const Replacements& replacements) {
  Sum result;
  for (const Term& t : sum) result.push_back(replaced(t, replacements));
  return result;
}

namespace {

std::string show(const Factor& f) {
  switch (f.kind) {
    case Factor::Kind::kAccess:
      return "input" + std::to_string(f.input) + to_string(f.position);
    case Factor::Kind::kIndex:
      return "(" + f.index.to_string() + ")";
    case Factor::Kind::kReciprocalIndex:
      return "1/(" + f.index.to_string() + ")";
    case Factor::Kind::kUnknown:
      return f.name;
    case Factor::Kind::kFunction: {
      std::string text;
      for (const Sum& a : f.arguments) text += (text.empty() ? "" : ", ") + to_string(a);
      return f.name + "(" + text + ")";
    }
    case Factor::Kind::kMaximum:
      break;
  }
  std::string text;
  for (const MaximumElement& e : f.elements) {
    text += (text.empty() ? "" : "; ") + to_string(e.value);
    for (const Index& v : e.bound) text += " over " + v.to_string();
    for (const Guard& g : e.guards) text += " if " + g.to_string();
  }
  return "max{" + text + "}";
}

}  // namespace

std::string to_string(const Sum& sum) {
  std::string text;
  for (const Term& t : sum) {
    text += text.empty() ? "" : " + ";
    text += t.coefficient.to_string();
    for (const Index& v : t.bound) text += " sum(" + v.to_string() + ")";
    if (!t.guards.empty()) {
      text += " [";
      for (std::size_t i = 0; i < t.guards.size(); ++i) text += (i ? ", " : "") + t.guards[i].to_string();
      text += "]";
    }
    for (const Factor& f : t.factors) text += " * " + show(f);
  }
  return text.empty() ? "0" : text;
}

}  // namespace rewright::proof
