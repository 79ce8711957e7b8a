#include "verifier/checker/mutation.h"

#include <cstdint>
#include <functional>
#include <type_traits>
#include <utility>
#include <vector>

#include "operators/operator.h"

namespace rewright::proof {

namespace {

using Random = std::mt19937_64;

template <class List>
auto* one_of(List& list, Random& random) {
  return list.empty() ? nullptr : &list[random() % list.size()];
}

// Collects all terms of a sum, including those inside functions and maxima.
void collect(Sum& sum, std::vector<Term*>& terms) {
  for (Term& t : sum) {
    terms.push_back(&t);
    for (Factor& f : t.factors) {
      for (Sum& argument : f.arguments) collect(argument, terms);
      for (MaximumElement& e : f.elements) collect(e.value, terms);
    }
  }
}

void collect(Derivation& d, std::vector<MemberClass*>& classes) {
  for (MemberClass& c : d.classes) {
    classes.push_back(&c);
    for (Member& m : c.members)
      for (Derivation& part : m.parts) collect(part, classes);
  }
}

class Mutation {
 public:
  Mutation(Certificate& certificate, Random& random) : certificate_(certificate), random_(random) {
    if (CaseProof* c = one_of(certificate.cases, random)) {
      case_ = c;
      if ((output_ = one_of(c->outputs, random)) != nullptr) {
        collect(output_->source, terms_);
        collect(output_->target, terms_);
        collect(output_->derivation, classes_);
      }
    }
  }

  // False if there is nothing of this kind.
  bool run(std::string& what) {
    const std::vector<std::pair<const char*, std::function<bool()>>> kinds = {
        {"coefficient", [&] { return term([](Term& t) { t.coefficient = t.coefficient * Rational(3, 2); }); }},
        {"guard of a term", [&] { return term([](Term& t) { t.guards.push_back(non_negative(-1)); }); }},
        {"position", [&] { return factor([](Factor& f) { return change(f.position); }); }},
        {"input", [&] { return factor([](Factor& f) { return f.kind == Factor::Kind::kAccess && ++f.input; }); }},
        {"index", [&] { return factor([](Factor& f) { return is_index(f) && change(f.index); }); }},
        {"function", [&] { return factor([](Factor& f) { return f.kind == Factor::Kind::kFunction && change(f.name); }); }},
        {"element of a maximum",
         [&] { return factor([](Factor& f) { return !f.elements.empty() && change(f.elements[0].guards); }); }},
        {"a term less", [&] { return drop(output_->source) || drop(output_->target); }},
        {"bound variable less", [&] { return term([](Term& t) { return drop_last(t.bound); }); }},
        {"verdict", [&] { return change_verdict(); }},
        {"question twice",
         [&] { return !certificate_.queries.empty() && (certificate_.queries.push_back(certificate_.queries[0]), true); }},
        {"question's text", [&] { return !certificate_.queries.empty() && change(certificate_.queries[0].text); }},
        {"budget", [&] { return !certificate_.queries.empty() && ++certificate_.queries[0].steps; }},
        {"hypothesis", [&] { return change(case_->hypotheses); }},
        {"hypothesis less", [&] { return drop_last(case_->hypotheses); }},
        {"typing", [&] { return change(case_->typing); }},
        {"description", [&] { return change(case_->description); }},
        {"case less", [&] { return drop_last(certificate_.cases); }},
        {"case twice", [&] { return certificate_.cases.push_back(*case_), true; }},
        {"output less", [&] { return drop_last(case_->outputs); }},
        {"member less", [&] { return member_class([&](MemberClass& c) { return drop_last(c.members); }); }},
        {"member twice", [&] { return member_class([&](MemberClass& c) { return c.members.push_back(c.members[0]), true; }); }},
        {"class less", [&] { return drop_last(output_->derivation.classes); }},
        {"class variable less", [&] { return member_class([&](MemberClass& c) { return drop_last(c.variables); }); }},
        {"member's term", [&] { return member([](Member& m) { return ++m.term, true; }); }},
        {"member's coefficient", [&] { return member([](Member& m) { return m.coefficient = m.coefficient * 2, true; }); }},
        {"member's guard", [&] { return member([](Member& m) { return change(m.guards); }); }},
        {"renaming", [&] { return member([](Member& m) { return change(m.values); }); }},
        {"pivot", [&] { return member([](Member& m) { return change(m.inverse); }); }},
        {"order of factors", [&] { return member([](Member& m) { return !m.order.empty() && (m.order[0] += 5); }); }},
        {"part of a proof less", [&] { return member([](Member& m) { return drop_last(m.parts); }); }},
        {"part of a proof more", [&] { return member([](Member& m) { return m.parts.emplace_back(), true; }); }},
        {"vanished term", [&] { return output_->derivation.vanished.push_back(0), true; }},
        {"definition", [&] { return change(certificate_.definitions.begin()->second); }},
        {"definition less", [&] { return certificate_.definitions.erase(certificate_.definitions.begin()), true; }},
        {"ranks", [&] { return certificate_.ranks += 1, true; }},
        {"any rank", [&] { return certificate_.any_rank = !certificate_.any_rank, true; }},
        {"all ranks", [&] { return certificate_.all_ranks = !certificate_.all_ranks, true; }},
        {"rule's condition", [&] { return certificate_.rule.conditions.push_back(equal(Index(0), Index(1))), true; }},
        {"rule's target", [&] { return negate_target(); }},
    };
    const auto& [name, change] = kinds[random_() % kinds.size()];
    what = name;
    return output_ && change();
  }

 private:
  static bool is_index(const Factor& f) { return f.kind == Factor::Kind::kIndex || f.kind == Factor::Kind::kReciprocalIndex; }
  static bool change(Index& index) { return index += 1, true; }
  static bool change(std::string& text) { return text += "x", true; }
  static bool change(Indices& indices) { return !indices.empty() && change(indices[0]); }
  static bool change(Guards& guards) { return guards.push_back(non_negative(-1)), true; }
  template <class List>
  static bool drop_last(List& list) {
    return !list.empty() && (list.pop_back(), true);
  }
  static bool drop(Sum& sum) { return drop_last(sum); }

  template <class Change>
  bool term(const Change& change) {
    Term** t = one_of(terms_, random_);
    if (!t) return false;
    if constexpr (std::is_void_v<decltype(change(**t))>)
      return change(**t), true;
    else
      return change(**t);
  }
  template <class Change>
  bool factor(const Change& change) {
    return term([&](Term& t) {
      Factor* f = one_of(t.factors, random_);
      return f && change(*f);
    });
  }
  template <class Change>
  bool member_class(const Change& change) {
    MemberClass** c = one_of(classes_, random_);
    return c && change(**c);
  }
  template <class Change>
  bool member(const Change& change) {
    return member_class([&](MemberClass& c) {
      Member* m = one_of(c.members, random_);
      return m && change(*m);
    });
  }

  bool change_verdict() {
    Query* q = one_of(certificate_.queries, random_);
    if (!q) return false;
    q->answer = q->answer == Answer::kProved ? Answer::kRefuted : Answer::kProved;
    return true;
  }

  // Negates the target.
  bool negate_target() {
    Pattern& target = certificate_.rule.target;
    target.nodes.push_back({&registry().get("Neg"), {}, {target.outputs[0]}, 1});
    target.outputs[0] = PatternValue::node(static_cast<std::uint32_t>(target.nodes.size() - 1));
    return true;
  }

  Certificate& certificate_;
  Random& random_;
  CaseProof* case_ = nullptr;
  OutputProof* output_ = nullptr;
  std::vector<Term*> terms_;
  std::vector<MemberClass*> classes_;
};

}  // namespace

std::string mutate(Certificate& certificate, Random& random) {
  for (;;) {
    std::string what;
    if (Mutation(certificate, random).run(what)) return what;
  }
}

}  // namespace rewright::proof
