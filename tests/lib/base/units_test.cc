// Amounts as people read them.
#include "lib/base/units.h"

#include <doctest/doctest.h>

using namespace nvllm;

TEST_CASE("bytes, counts and digits in groups") {
    CHECK(describe_bytes(96) == "96 B");
    CHECK(describe_bytes(1536) == "1.5 KiB");
    CHECK(describe_bytes(uint64_t{4} << 30) == "4.00 GiB");
    CHECK(with_separators(0) == "0");
    CHECK(with_separators(999) == "999");
    CHECK(with_separators(1000) == "1,000");
    CHECK(with_separators(6738415616) == "6,738,415,616");
    CHECK(with_separators(-123456) == "-123,456");
    CHECK(with_separators(-123) == "-123");
    CHECK(describe_count(2885888) == "2.89 million");
    CHECK(describe_count(6738415616) == "6.74 billion");
    CHECK(describe_count(12) == "12");
}
