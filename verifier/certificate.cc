#include "verifier/certificate.h"

#include <openssl/evp.h>
#include <zlib.h>

#include <unordered_map>

#include "base/error.h"
#include "rules/io.h"
#include "verifier/certificate.pb.h"

namespace rewright::proof {

namespace {

class Writer {
 public:
  explicit Writer(certificate::Certificate& file) : file_(file) {}

  void write(const CaseProof& c) {
    auto* p = file_.add_cases();
    p->set_description(c.description);
    for (const Guard& g : c.hypotheses) p->add_hypotheses(entry(g));
    for (const Guard& g : c.typing) p->add_typing(entry(g));
    for (const OutputProof& o : c.outputs) {
      // Bound variables are renumbered, so that parts common to many cases are written once.
      numbers_.clear();
      auto* q = p->add_outputs();
      write(o.source, q->mutable_source());
      write(o.target, q->mutable_target());
      write(o.derivation, q->mutable_derivation());
      for (const Content& c : o.contents) write(c, q->add_contents());
    }
  }

 private:
  std::uint32_t add(const certificate::Entry& e) {
    const std::string bytes = e.SerializeAsString();
    const auto [known, inserted] = entries_.try_emplace(bytes, static_cast<std::uint32_t>(file_.entries_size()));
    if (inserted) *file_.add_entries() = e;
    return known->second;
  }

  std::uint32_t entry(const Atom& a) {
    certificate::Entry e;
    auto* p = e.mutable_atom();
    for (const Index& i : a.arguments) p->add_arguments(entry(i));
    switch (a.kind) {
      case Atom::Kind::kSymbol:
        p->set_kind(certificate::Entry::Atom::SYMBOL);
        p->set_name(a.name);
        break;
      case Atom::Kind::kBound: {
        p->set_kind(certificate::Entry::Atom::BOUND);
        p->set_name(a.name);
        p->set_number(numbers_.try_emplace(a.id, static_cast<std::uint32_t>(numbers_.size())).first->second);
        break;
      }
      case Atom::Kind::kFloorDiv:
        p->set_kind(certificate::Entry::Atom::FLOOR_DIV);
        break;
      case Atom::Kind::kMod:
        p->set_kind(certificate::Entry::Atom::MOD);
        break;
      case Atom::Kind::kMin:
        p->set_kind(certificate::Entry::Atom::MIN);
        break;
      case Atom::Kind::kMax:
        p->set_kind(certificate::Entry::Atom::MAX);
        break;
      case Atom::Kind::kPosition:
      case Atom::Kind::kLoad:
        throw Error(ErrorCode::kUnsupported, "a position depends on the contents of a tensor");
    }
    return add(e);
  }

  std::uint32_t entry(const Index& index) {
    certificate::Entry e;
    auto* p = e.mutable_polynomial();
    p->set_constant(index.constant_term());
    if (index.polynomial())
      for (const Monomial& m : index.polynomial()->monomials) {
        auto* q = p->add_monomials();
        q->set_coefficient(m.coefficient);
        for (const AtomPointer& f : m.factors) q->add_atoms(entry(*f));
      }
    return add(e);
  }

  std::uint32_t entry(const Guard& g) {
    certificate::Entry e;
    auto* p = e.mutable_guard();
    p->set_kind(static_cast<certificate::Entry::Guard::Kind>(g.kind));
    if (g.kind == Guard::Kind::kAll || g.kind == Guard::Kind::kAny)
      for (const Guard& part : g.parts) p->add_parts(entry(part));
    else
      p->set_value(entry(g.value));
    return add(e);
  }

  template <class List, class Field>
  void entries(const List& list, Field* field) {
    for (const auto& element : list) field->Add(entry(element));
  }

  static void write(const Rational& r, certificate::Fraction* p) {
    p->set_numerator(r.numerator());
    p->set_denominator(r.denominator());
  }

  void write(const Factor& f, certificate::Factor* p) {
    p->set_kind(static_cast<certificate::Factor::Kind>(f.kind));
    switch (f.kind) {
      case Factor::Kind::kAccess:
        p->set_input(static_cast<std::uint32_t>(f.input));
        entries(f.position, p->mutable_position());
        break;
      case Factor::Kind::kIndex:
      case Factor::Kind::kReciprocalIndex:
        p->set_index(entry(f.index));
        break;
      case Factor::Kind::kUnknown:
        p->set_name(f.name);
        break;
      case Factor::Kind::kFunction:
        p->set_name(f.name);
        for (const Sum& argument : f.arguments) write(argument, p->add_arguments());
        break;
      case Factor::Kind::kMaximum:
        for (const MaximumElement& element : f.elements) {
          auto* q = p->add_elements();
          entries(element.bound, q->mutable_bound());
          entries(element.guards, q->mutable_guards());
          write(element.value, q->mutable_value());
        }
    }
  }

  void write(const Sum& sum, certificate::Sum* p) {
    for (const Term& t : sum) {
      auto* q = p->add_terms();
      write(t.coefficient, q->mutable_coefficient());
      entries(t.bound, q->mutable_bound());
      entries(t.guards, q->mutable_guards());
      for (const Factor& f : t.factors) write(f, q->add_factors());
    }
  }

  void write(const Content& c, certificate::Content* p) {
    p->set_name(c.name);
    write(c.value, p->mutable_value());
    p->set_is_place(c.size.has_value());
    if (c.size) p->set_size(entry(*c.size));
  }

  void write(const Derivation& d, certificate::Derivation* p) {
    for (const std::size_t term : d.vanished) p->add_vanished(static_cast<std::uint32_t>(term));
    for (const MemberClass& c : d.classes) {
      auto* q = p->add_classes();
      entries(c.variables, q->mutable_variables());
      for (const Member& m : c.members) {
        auto* r = q->add_members();
        r->set_term(static_cast<std::uint32_t>(m.term));
        entries(m.values, r->mutable_values());
        entries(m.inverse, r->mutable_inverse());
        entries(m.quantified, r->mutable_quantified());
        entries(m.guards, r->mutable_guards());
        write(m.coefficient, r->mutable_coefficient());
        for (const std::size_t i : m.order) r->add_order(static_cast<std::uint32_t>(i));
        for (const Derivation& part : m.parts) write(part, r->add_parts());
      }
    }
  }

  certificate::Certificate& file_;
  std::unordered_map<std::string, std::uint32_t> entries_;
  std::unordered_map<std::uint64_t, std::uint32_t> numbers_;  // new numbers of bound variables
};

std::string deflated(const std::string& bytes) {
  uLongf size = compressBound(bytes.size());
  std::string result(size, '\0');
  if (compress2(reinterpret_cast<Bytef*>(result.data()), &size, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size(),
                9) != Z_OK)
    throw Error(ErrorCode::kMissing, "zlib cannot deflate a certificate");
  result.resize(size);
  return result;
}

}  // namespace

void DefinitionVersions::add(const DefinedSide& side) {
  for (std::size_t n = 0; n < side.nodes.size(); ++n) {
    const PatternNode& node = side.pattern->nodes[n];
    std::string& text = texts_[node.op->name()];
    std::vector<std::string> names;
    for (const PatternValue& v : node.inputs) {
      names.push_back("x" + std::to_string(names.size()));
      text += names.back() + " = ";
      text += v.kind == PatternValue::Kind::kAbsent ? "absent" : to_string(type_of(side, v));
      text += "; ";
    }
    for (const Output& o : side.nodes[n]) {
      text += to_string(o.type) + to_string(o.position) + " = ";
      text += (o.element ? to_string(o.element, names) : "") + "\n";
    }
  }
}

std::map<std::string, std::string> DefinitionVersions::digests() const {
  std::map<std::string, std::string> result;
  for (const auto& [name, text] : texts_) result.emplace(name, sha256(text));
  return result;
}

std::string sha256(std::string_view bytes) {
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned size = 0;
  if (EVP_Digest(bytes.data(), bytes.size(), digest, &size, EVP_sha256(), nullptr) != 1)
    throw Error(ErrorCode::kMissing, "libcrypto cannot compute a SHA-256");
  return {reinterpret_cast<const char*>(digest), size};
}

std::string hexadecimal(std::string_view bytes) {
  std::string text;
  for (const char c : bytes)
    for (const int shift : {4, 0}) text += "0123456789abcdef"[(static_cast<unsigned char>(c) >> shift) & 15];
  return text;
}

Rule proved_part(Rule rule) {
  rule.description.clear();
  rule.origin = {};
  rule.proof = {};
  return rule;
}

std::string certificate_message(const Certificate& c) {
  certificate::Certificate file;
  file.set_version(kCertificateVersion);
  file.set_prover(c.prover);
  file.set_rule(write_rules({proved_part(c.rule)}, RuleFormat::kBinary));
  file.set_ranks(static_cast<std::uint32_t>(c.ranks));
  file.set_all_ranks(c.all_ranks);
  file.set_any_rank(c.any_rank);
  file.set_linear_steps(c.solver.linear_steps);
  file.set_nonlinear_steps(c.solver.nonlinear_steps);
  file.set_seed(c.solver.seed);
  for (const auto& [name, digest] : c.definitions) {
    auto* p = file.add_definitions();
    p->set_op(name);
    p->set_digest(digest);
  }
  Writer writer(file);
  for (const CaseProof& proof : c.cases) writer.write(proof);
  for (const Query& query : c.queries) {
    auto* p = file.add_queries();
    p->set_text(query.text);
    p->set_steps(query.steps);
    p->set_quantified(query.quantified);
    p->set_answer(static_cast<certificate::Query::Answer>(query.answer));
  }
  return file.SerializeAsString();
}

std::string certificate_file(const std::string& message) {
  const std::string result = std::string(kCertificateHeader) + deflated(message);
  return result + sha256(result);
}

std::string write_certificate(const Certificate& certificate) { return certificate_file(certificate_message(certificate)); }

}  // namespace rewright::proof
