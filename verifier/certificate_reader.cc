#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/stubs/logging.h>
#include <zlib.h>

#include "base/error.h"
#include "rules/io.h"
#include "verifier/certificate.h"
#include "verifier/certificate.pb.h"

namespace rewright::proof {

namespace {

constexpr std::size_t kMaximumBytes = std::size_t{256} << 20;  // of an uncompressed certificate
constexpr std::size_t kMaximumSize = 5000;                     // of one expanded expression, in atoms

[[noreturn]] void bad(const std::string& what) { throw Error(ErrorCode::kBadInput, what); }

std::string inflated(std::string_view bytes) {
  std::string result;
  z_stream stream{};
  if (inflateInit(&stream) != Z_OK) throw Error(ErrorCode::kMissing, "zlib cannot inflate a certificate");
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));  // zlib does not write there
  stream.avail_in = static_cast<uInt>(bytes.size());
  int status = Z_OK;
  std::string part(std::size_t{1} << 16, '\0');
  while (status == Z_OK && result.size() <= kMaximumBytes) {
    stream.next_out = reinterpret_cast<Bytef*>(part.data());
    stream.avail_out = static_cast<uInt>(part.size());
    status = inflate(&stream, Z_NO_FLUSH);
    result.append(part, 0, part.size() - stream.avail_out);
  }
  const bool whole = status == Z_STREAM_END && stream.avail_in == 0;
  inflateEnd(&stream);
  if (!whole) bad("it is no deflated certificate, or too large");
  return result;
}

class Reader {
 public:
  explicit Reader(const certificate::Certificate& file) {
    for (const certificate::Entry& e : file.entries()) read(e);
  }

  CaseProof read(const certificate::ProofCase& p) {
    CaseProof c;
    c.description = p.description();
    c.hypotheses = guards(p.hypotheses());
    c.typing = guards(p.typing());
    for (const auto& o : p.outputs()) {
      OutputProof& output = c.outputs.emplace_back(OutputProof{read(o.source()), read(o.target()), read(o.derivation())});
      for (const auto& content : o.contents()) output.contents.push_back(read(content));
    }
    return c;
  }

 private:
  // An entry is one of three kinds.
  struct Value {
    AtomPointer atom;
    std::optional<Index> index;
    std::optional<Guard> guard;
    std::size_t size = 1;
  };

  const Value& at(std::uint32_t number) const {
    if (number >= entries_.size()) bad("an expression refers to one that is not there");
    return entries_[number];
  }
  const Index& index(std::uint32_t number) const {
    const Value& v = at(number);
    if (!v.index) bad("an index expression is expected");
    return *v.index;
  }
  const Guard& guard(std::uint32_t number) const {
    const Value& v = at(number);
    if (!v.guard) bad("a guard is expected");
    return *v.guard;
  }
  template <class Field>
  Indices indices(const Field& field) const {
    Indices result;
    for (const std::uint32_t number : field) result.push_back(index(number));
    return result;
  }
  template <class Field>
  Guards guards(const Field& field) const {
    Guards result;
    for (const std::uint32_t number : field) result.push_back(guard(number));
    return result;
  }

  void read(const certificate::Entry& e) {
    Value v;
    if (e.has_atom()) {
      v.atom = atom(e.atom(), v.size);
    } else if (e.has_polynomial()) {
      Index sum = e.polynomial().constant();
      for (const auto& m : e.polynomial().monomials()) {
        Index product = m.coefficient();
        for (const std::uint32_t number : m.atoms()) {
          const Value& factor = at(number);
          if (!factor.atom) bad("an atom is expected");
          v.size += factor.size;
          if (v.size > kMaximumSize) bad("an expression is too large");
          product *= Index::atom(factor.atom);
        }
        sum += product;
      }
      v.index = sum;
    } else if (e.has_guard()) {
      const auto& g = e.guard();
      if (!certificate::Entry::Guard::Kind_IsValid(g.kind())) bad("a guard of unknown kind");
      v.guard = Guard{static_cast<Guard::Kind>(g.kind()), {}, {}};
      if (g.kind() == certificate::Entry::Guard::ALL || g.kind() == certificate::Entry::Guard::ANY) {
        v.guard->parts = guards(g.parts());
        for (const std::uint32_t part : g.parts()) v.size += at(part).size;
      } else {
        v.guard->value = index(g.value());
        v.size += at(g.value()).size;
      }
    } else {
      bad("an empty expression");
    }
    if (v.size > kMaximumSize) bad("an expression is too large");
    entries_.push_back(std::move(v));
  }

  AtomPointer atom(const certificate::Entry::Atom& a, std::size_t& size) {
    using Proto = certificate::Entry::Atom;
    if (a.kind() == Proto::SYMBOL) return Index::symbol(a.name()).polynomial()->monomials[0].factors[0];
    if (a.kind() == Proto::BOUND) {
      const auto [known, inserted] = bound_.try_emplace(a.number());
      if (inserted) known->second = Index::fresh(a.name()).polynomial()->monomials[0].factors[0];
      return known->second;
    }
    if (!Proto::Kind_IsValid(a.kind()) || a.arguments_size() != 2) bad("an atom of unknown kind");
    const Atom::Kind kind = a.kind() == Proto::FLOOR_DIV ? Atom::Kind::kFloorDiv
                            : a.kind() == Proto::MOD     ? Atom::Kind::kMod
                            : a.kind() == Proto::MIN     ? Atom::Kind::kMin
                                                         : Atom::Kind::kMax;
    for (const std::uint32_t argument : a.arguments()) size += at(argument).size;
    return std::make_shared<const Atom>(Atom{kind, 0, {}, indices(a.arguments()), nullptr});
  }

  static Rational read(const certificate::Fraction& p) {
    constexpr std::int64_t kLimit = std::int64_t{1} << 62;
    if (p.denominator() < 1 || p.denominator() > kLimit || p.numerator() < -kLimit || p.numerator() > kLimit)
      bad("a coefficient is out of range");
    return {p.numerator(), p.denominator()};
  }

  Factor read(const certificate::Factor& p) {
    if (!certificate::Factor::Kind_IsValid(p.kind())) bad("a factor of unknown kind");
    Factor f{.kind = static_cast<Factor::Kind>(p.kind())};
    f.input = p.input();
    f.position = indices(p.position());
    if (f.kind == Factor::Kind::kIndex || f.kind == Factor::Kind::kReciprocalIndex) f.index = index(p.index());
    f.name = p.name();
    for (const auto& argument : p.arguments()) f.arguments.push_back(read(argument));
    for (const auto& e : p.elements()) f.elements.push_back({indices(e.bound()), guards(e.guards()), read(e.value())});
    return f;
  }

  Sum read(const certificate::Sum& p) {
    Sum sum;
    for (const auto& t : p.terms()) {
      Term term{read(t.coefficient()), indices(t.bound()), guards(t.guards()), {}};
      for (const auto& f : t.factors()) term.factors.push_back(read(f));
      sum.push_back(std::move(term));
    }
    return sum;
  }

  Content read(const certificate::Content& p) {
    Content content{p.name(), read(p.value())};
    if (p.is_place()) content.size = index(p.size());
    return content;
  }

  Derivation read(const certificate::Derivation& p) {
    Derivation d;
    d.vanished.assign(p.vanished().begin(), p.vanished().end());
    for (const auto& c : p.classes()) {
      MemberClass& k = d.classes.emplace_back();
      k.variables = indices(c.variables());
      for (const auto& m : c.members()) {
        Member& member = k.members.emplace_back();
        member.term = m.term();
        member.values = indices(m.values()), member.inverse = indices(m.inverse());
        member.quantified = indices(m.quantified()), member.guards = guards(m.guards());
        member.coefficient = read(m.coefficient());
        member.order.assign(m.order().begin(), m.order().end());
        for (const auto& part : m.parts()) member.parts.push_back(read(part));
      }
    }
    return d;
  }

  std::vector<Value> entries_;
  std::map<std::uint32_t, AtomPointer> bound_;
};

Certificate read(std::string_view bytes) {
  const std::size_t digest = 32;
  if (!bytes.starts_with(kCertificateHeader)) bad("it is no certificate");
  if (bytes.size() < kCertificateHeader.size() + digest) bad("it is cut off");
  const std::string_view content = bytes.substr(0, bytes.size() - digest);
  if (sha256(content) != bytes.substr(content.size())) bad("it is damaged: its SHA-256 is another one");
  const std::string message = inflated(content.substr(kCertificateHeader.size()));
  const google::protobuf::LogSilencer silencer;  // Protobuf would print what is wrong
  certificate::Certificate file;
  google::protobuf::io::CodedInputStream stream(reinterpret_cast<const std::uint8_t*>(message.data()),
                                                static_cast<int>(message.size()));
  stream.SetRecursionLimit(100);
  if (!file.ParseFromCodedStream(&stream) || !stream.ConsumedEntireMessage()) bad("it is no certificate inside");
  if (file.version() != kCertificateVersion)
    bad("it is of version " + std::to_string(file.version()) + " of the format, this program reads " +
        std::to_string(kCertificateVersion));
  Certificate c;
  c.prover = file.prover();
  std::vector<Rule> rules = read_rules(file.rule(), "rule");
  if (rules.size() != 1) bad("it is not about one rule");
  c.rule = std::move(rules[0]);
  c.ranks = file.ranks(), c.all_ranks = file.all_ranks(), c.any_rank = file.any_rank();
  c.solver = {file.linear_steps(), file.nonlinear_steps(), file.seed()};
  for (const auto& d : file.definitions())
    if (!c.definitions.emplace(d.op(), d.digest()).second) bad("an operator has two versions");
  Reader reader(file);
  for (const auto& p : file.cases()) c.cases.push_back(reader.read(p));
  for (const auto& q : file.queries()) {
    if (!certificate::Query::Answer_IsValid(q.answer())) bad("a verdict of unknown kind");
    c.queries.push_back({q.text(), q.steps(), q.quantified(), static_cast<Answer>(q.answer())});
  }
  return c;
}

}  // namespace

Certificate read_certificate(std::string_view bytes, const std::string& name) {
  try {
    return read(bytes);
  } catch (const Error& e) {
    throw e.within(name);
  }
}

}  // namespace rewright::proof
