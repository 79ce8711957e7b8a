#include "api/given_sizes.h"

#include <catch2/catch.hpp>

namespace rewright::api {

namespace {

Graph model() {
  Graph graph;
  graph.add_input("x", {DataType::kFloat, {Index::symbol("batch"), Index(3), Index::symbol("n")}});
  graph.add_input("mask", {DataType::kFloat, {Index::symbol("batch"), Index::symbol("n")}});
  return graph;
}

std::vector<WeightedSizes> sets(const std::vector<std::string>& shapes) { return given_sizes(model(), parse_shapes(shapes)); }

NamedSizes of(std::int64_t batch, std::int64_t n) { return {{"batch", batch}, {"n", n}}; }

ErrorCode code_of(const std::vector<std::string>& shapes) {
  try {
    sets(shapes);
  } catch (const Error& error) {
    return error.code();
  }
  return ErrorCode::kMissing;
}

}  // namespace

TEST_CASE("one set of sizes, several with weights, and ranges") {
  const auto one = sets({"x=1x3x64"});
  REQUIRE(one.size() == 1);
  CHECK(one[0].sizes == of(1, 64));
  CHECK(one[0].weight == 1);
  CHECK(sets({}).size() == 1);

  const auto two = sets({"x=1x3x64*3,2x3x128"});
  REQUIRE(two.size() == 2);
  CHECK(two[0].sizes == of(1, 64));
  CHECK(two[0].weight == 3);
  CHECK(two[1].sizes == of(2, 128));
  CHECK(two[1].weight == 1);

  const auto range = sets({"x=1..4x3x8..512*6,1x3x1"});
  REQUIRE(range.size() == 4);
  CHECK(range[0].sizes == of(1, 8));
  CHECK(range[1].sizes == of(2, 64));
  CHECK(range[2].sizes == of(4, 512));
  CHECK(range[1].weight == 2);
  CHECK(range[3].weight == 1);

  const auto stepped = sets({"x=1x3x320..650/32"});
  REQUIRE(stepped.size() == 3);
  CHECK(stepped[1].sizes == of(1, 448));
  CHECK(stepped[2].sizes == of(1, 640));
}

TEST_CASE("the sets of several inputs belong together") {
  const auto both = sets({"x=1x3x8,1x3x64*2", "mask=1x8,1x64"});
  REQUIRE(both.size() == 2);
  CHECK(both[1].sizes == of(1, 64));
  CHECK(both[1].weight == 2);
  CHECK(sets({"x=1x3x8..64", "mask=1x8..64"}).size() == 3);
  CHECK(sets({"x=2x3x8,2x3x64,2x3x8", "mask=2x8,2x64,2x8"}).front().weight == 2);  // the same sizes twice
  CHECK(code_of({"x=1x3x8,1x3x64", "mask=1x8"}) == ErrorCode::kBadInput);          // the mask of the second would have 8
  CHECK(code_of({"x=1x3x8,1x3x64", "mask=1x8,1x64,1x65"}) == ErrorCode::kUsage);
  CHECK(code_of({"x=1x3x8*2,1x3x64", "mask=1x8*3,1x64"}) == ErrorCode::kUsage);
}

TEST_CASE("what is no size is refused") {
  for (const char* text :
       {"x", "=1", "x=1x", "x=x1", "x=1y3", "x=-1x3x8", "x=1x3x8,", "x=,1x3x8", "x=1x3x8*0", "x=1x3x8*-1", "x=1x3x8*",
        "x=1x3x8*nan", "x=1x3x8*inf", "x=1x3x8..4", "x=1x3x..4", "x=1x3x4..8/0", "x=1x3x99999999999999999999", "x=1 x3x8"}) {
    INFO(text);
    CHECK(code_of({text}) == ErrorCode::kUsage);
  }
  CHECK(code_of({"x=1x3x8", "x=1x3x8"}) == ErrorCode::kUsage);
  CHECK(code_of({"y=1x3x8"}) == ErrorCode::kBadInput);
  CHECK(code_of({"x=1x4x8"}) == ErrorCode::kBadInput);
  CHECK(code_of({"x=1x3"}) == ErrorCode::kBadInput);
  CHECK(code_of({"x=1x3x8", "mask=2x8"}) == ErrorCode::kBadInput);
  CHECK_THROWS_AS(one_set_of_sizes(model(), parse_shapes({"x=1x3x8,1x3x9"})), Error);
}

}  // namespace rewright::api
