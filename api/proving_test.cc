// Proofs of equal models through the C interface and C++ over it.
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "base/temporary_folder.h"
#include "graph/file.h"
#include "graph/onnx/text.h"

// This program also contains the library's internal classes, some with the names of the public ones.
#define rewright rewright_for_programs
#include "api/rewright.h"
#undef rewright

using rewright_for_programs::Failure, rewright_for_programs::check_proof, rewright_for_programs::Proof,
    rewright_for_programs::prove;

TEST_CASE("two models are proved equal through C++, with a certificate") {
  const rewright::TemporaryFolder folder;
  const auto file = [&](const char* name, const char* body) {
    const std::string path = (folder.path() / name).string();
    rewright::graph::write_file(path,
                                rewright::graph::text_bytes(std::string("agraph (float[N, 4] x) => (float[N, 4] y) ") + body));
    return path;
  };
  const std::string first = file("first.onnx", "{ a = Relu(x) y = Relu(a) }"), second = file("second.onnx", "{ y = Relu(x) }"),
                    third = file("third.onnx", "{ y = Abs(x) }");
  const std::string certificate = (folder.path() / "proof").string();
  const Proof proof = prove(first, second, {{"certificate", certificate}});
  CHECK(proof);
  CHECK(check_proof(first, second, certificate));
  CHECK_THROWS_AS(check_proof(first, third, certificate), Failure);
  const Proof wrong = prove(first, third);
  CHECK(wrong.verdict() == "refuted");
  CHECK(nlohmann::json::parse(wrong.report())["places"].size() == 1);
  CHECK_THROWS_AS(prove(first, second, {{"colour", "red"}}), Failure);
  CHECK_THROWS_AS(prove(first, second, {{"map", "x"}}), Failure);
  CHECK(rewright_prove(nullptr, nullptr, nullptr, nullptr) == REWRIGHT_USAGE);
}
