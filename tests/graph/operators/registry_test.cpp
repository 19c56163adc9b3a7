#include <set>
#include <string>

#include <doctest/doctest.h>

#include "graph/operators/communication/ring_attention.hpp"
#include "graph/operators/family.hpp"
#include "graph/operators/known_families.hpp"

namespace tidemark::registry_test {

TEST_SUITE("unit") {
  TEST_CASE("every operator family is complete and found by its own name") {
    std::set<std::string_view> names;
    for (const OperatorFamily* family : all_families()) {
      CAPTURE(std::string(family->name));
      CHECK(names.insert(family->name).second);
      CHECK(find_family(family->name) == family);
      CHECK_FALSE(family->summary.empty());
      CHECK((family->infer != nullptr));
      CHECK((family->forward != nullptr));
      CHECK((family->save != nullptr));
      CHECK((family->backward != nullptr));
    }
    CHECK(names.size() > 50);
    CHECK(find_family("no_such_family") == nullptr);
  }

  TEST_CASE("families that the program asks for are those of the registry") {
    CHECK(&linear_family() == find_family("linear"));
    CHECK(is_attention(attention_family()));
    CHECK(is_attention(ring_attention_family()));
    std::string found;
    for (const OperatorFamily* family : all_families()) {
      if (!is_convolution(*family) && !is_recurrent(*family)) continue;
      found += std::string(family->name) + (is_transposed_convolution(*family) ? "* " : " ");
    }
    CHECK(found ==
          "conv1d conv2d conv3d conv_transpose1d* conv_transpose2d* conv_transpose3d* gru lstm "
          "rnn ");
  }
}

}  // namespace tidemark::registry_test
