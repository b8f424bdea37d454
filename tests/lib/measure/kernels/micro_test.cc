// Names of micro tests, their product, and lists of numbers.
#include "lib/measure/kernels/micro.h"

#include <doctest/doctest.h>

#include "kernels/error.h"
#include "lib/measure/number_list.h"

using namespace nvllm;
using Numbers = std::vector<int32_t>;

TEST_CASE("tests are named as in llama-bench") {
    CHECK(MicroTest{.num_prompt = 512}.name() == "pp512");
    CHECK(MicroTest{.num_generated = 128}.name() == "tg128");
    CHECK(MicroTest{512, 128, 0}.name() == "pp512+tg128");
    CHECK(MicroTest{512, 0, 4096}.name() == "pp512 @ d4096");
}

TEST_CASE("all lists are combined; zeros give no test") {
    MicroTestLists lists;
    lists.prompts = {64, 0};
    lists.generated = {8};
    lists.depths = {0, 16};
    lists.together = {{32, 4, 0}};
    std::vector<std::string> names;
    for (const MicroTest& test : micro_tests(lists)) names.push_back(test.name());
    CHECK(names == std::vector<std::string>{"pp64", "tg8", "pp32+tg4", "pp64 @ d16", "tg8 @ d16",
                                            "pp32+tg4 @ d16"});
}

TEST_CASE("lists and ranges") {
    CHECK(parse_number_list("512", "-p", 1000) == Numbers{512});
    CHECK(parse_number_list("1,2,4", "-p", 10) == Numbers{1, 2, 4});
    CHECK(parse_number_list("1-4", "-p", 10) == Numbers{1, 2, 3, 4});
    CHECK(parse_number_list("128-512+128", "-p", 1000) == Numbers{128, 256, 384, 512});
    CHECK(parse_number_list("1-10*2,0", "-p", 10) == Numbers{1, 2, 4, 8, 0});
    for (const char* bad : {"", "a", "1,", "-1", "4-1", "0-8*2", "1-8*1", "1-8+0", "11", "1-2-3",
                            "99999999999", "1-"}) {
        CHECK_THROWS_AS(static_cast<void>(parse_number_list(bad, "-p", 10)), Error);
    }
    CHECK_THROWS_AS(static_cast<void>(parse_number_list("0-1000000", "-p", 1000000)), Error);
}
