// Tests of processor lists and masks: every form, and texts that are none.
#include "kernels/host/cpu_list.h"

#include "tests/kernels/testing.h"

using nvllm::CpuList;
using nvllm::format_cpu_list;
using nvllm::intersection;
using nvllm::parse_cpu_list;
using nvllm::parse_cpu_mask;

TEST_CASE("lists are read as the system writes them") {
    CHECK(parse_cpu_list("0") == CpuList{0});
    CHECK(parse_cpu_list("0-3,8\n") == CpuList{0, 1, 2, 3, 8});
    CHECK(parse_cpu_list("8,2-4,3,2") == CpuList{2, 3, 4, 8});
    CHECK(parse_cpu_list("5,") == CpuList{5});
    CHECK(parse_cpu_list("")->empty());
    CHECK(parse_cpu_list("\n")->empty());
    for (const char* text : {"a", "-1", "3-1", "1--2", "1-", ",1", "1,,2", "1;2", "0-65536", "0x3",
                             "99999999999", "1 2"}) {
        CHECK(!parse_cpu_list(text));
    }
}

TEST_CASE("masks are hexadecimal unless they have a dash or a comma") {
    CHECK(parse_cpu_mask("f") == CpuList{0, 1, 2, 3});
    CHECK(parse_cpu_mask("0x10F") == CpuList{0, 1, 2, 3, 8});
    CHECK(parse_cpu_mask("10") == CpuList{4});
    CHECK(parse_cpu_mask("10-10") == CpuList{10});
    CHECK(parse_cpu_mask("5,") == CpuList{5});
    CHECK(parse_cpu_mask("0-3,8") == CpuList{0, 1, 2, 3, 8});
    CHECK(parse_cpu_mask("8000000000000000000000") == CpuList{87});
    for (const char* text : {"", "0", "0x", "g", "0-", ",", "-", "1-x", "0x1,2"}) {
        CHECK(!parse_cpu_mask(text));
    }
    CHECK(!parse_cpu_mask(std::string(20000, '1')));
}

TEST_CASE("what is written is read again") {
    CHECK(format_cpu_list({}).empty());
    CHECK(format_cpu_list({7}) == "7");
    CHECK(format_cpu_list({0, 1, 3, 4, 5, 9}) == "0,1,3-5,9");
    for (const CpuList& cpus : {CpuList{0, 2, 4}, CpuList{0, 1, 2, 3}, CpuList{5, 6, 100, 101}}) {
        CHECK(parse_cpu_list(format_cpu_list(cpus)) == cpus);
    }
    CHECK(intersection({0, 1, 2, 5}, {1, 2, 3}) == CpuList{1, 2});
}
