// What is derived from the records of a run.
#include "lib/measure/engine_load.h"

#include <doctest/doctest.h>

using namespace nvllm;

namespace {

RequestRecord record_of(std::vector<double> token_times_s) {
    RequestRecord record;
    record.token_times_s = std::move(token_times_s);
    return record;
}

}  // namespace

TEST_CASE("decoding alone begins when the last request has its first token") {
    LoadResult result;
    result.requests = {record_of({1.0, 1.5, 2.5, 3.0}), record_of({2.0, 3.0, 4.0})};
    // Four tokens in the two seconds from 2.0 on.
    CHECK(result.decode_tokens_per_second() == doctest::Approx(2.0));
}

TEST_CASE("without a token after the first ones there is no rate of decoding") {
    LoadResult result;
    CHECK(result.decode_tokens_per_second() == 0.0);
    result.requests = {record_of({1.0}), record_of({2.0}), record_of({})};
    CHECK(result.decode_tokens_per_second() == 0.0);
}
