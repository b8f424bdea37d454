// Stop ids and the model's end tokens, with and without ignore_eos.
#include "lib/request/end_tokens.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <vector>

using namespace nvllm;

TEST_CASE("end tokens: stop ids and the model's own, ascending and each once") {
    const std::vector<int32_t> eos = {7, 3};
    SamplingParams params;
    CHECK(end_token_ids(params, eos) == std::vector<int32_t>{3, 7});
    params.stop_token_ids = {9, 3, 1};
    CHECK(end_token_ids(params, eos) == std::vector<int32_t>{1, 3, 7, 9});
    params.ignore_eos = true;
    CHECK(end_token_ids(params, eos) == std::vector<int32_t>{1, 3, 9});
}

TEST_CASE("end tokens: a token is one exactly if it is in the list") {
    const std::vector<int32_t> eos = {7, 3};
    for (const bool ignore_eos : {false, true}) {
        SamplingParams params;
        params.stop_token_ids = {9, 3};
        params.ignore_eos = ignore_eos;
        const std::vector<int32_t> ends = end_token_ids(params, eos);
        for (int32_t token = 0; token < 12; ++token) {
            const bool is_listed = std::find(ends.begin(), ends.end(), token) != ends.end();
            CHECK(is_end_token(params, eos, token) == is_listed);
        }
    }
}
