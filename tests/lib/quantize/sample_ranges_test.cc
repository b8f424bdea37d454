// Ranges of samples, and what observers make of them.
#include "lib/quantize/sample_ranges.h"

#include <doctest/doctest.h>

#include <array>
#include <initializer_list>

namespace nvllm::quantize {
namespace {

void see(SampleRanges& ranges, std::initializer_list<float> channels) {
    size_t channel = 0;
    for (const float value : channels) ranges.current()[channel++].add(value);
}

// Three samples of two channels; the second sample comes in two pieces.
SampleRanges three_samples(bool by_sample) {
    SampleRanges ranges(2, by_sample);
    see(ranges, {-1.0f, 3.0f});
    ranges.next_sample();
    see(ranges, {2.0f, 1.0f});
    see(ranges, {-5.0f, 0.5f});
    ranges.next_sample();
    see(ranges, {8.0f, -1.0f});
    return ranges;
}

TEST_CASE("the range of all samples") {
    for (const bool by_sample : {false, true}) {
        const ValueRange range = three_samples(by_sample).range(std::nullopt, {});
        CHECK(range.minimum == -5.0f);
        CHECK(range.maximum == 8.0f);
        CHECK(range.largest_magnitude() == 8.0f);
    }
}

TEST_CASE("a mean begins with the first sample and moves by its share to each later one") {
    // Lows -1, -5, -1; highs 3, 2, 8.
    const ValueRange range = three_samples(true).range(0.25, {});
    CHECK(range.minimum == doctest::Approx(-1.75));
    CHECK(range.maximum == doctest::Approx(4.0625));
    const ValueRange last = three_samples(true).range(1.0, {});
    CHECK(last.minimum == -1.0f);
    CHECK(last.maximum == 8.0f);
}

TEST_CASE("channels are divided before their samples' ranges are taken") {
    const std::array<float, 2> divisors = {10.0f, 0.5f};
    const ValueRange range = three_samples(true).range(std::nullopt, divisors);
    CHECK(range.minimum == -2.0f);
    CHECK(range.maximum == 6.0f);
}

TEST_CASE("the largest magnitude is of either side, and 0 is always within") {
    CHECK(ValueRange{-3.0f, 2.0f}.largest_magnitude() == 3.0f);
    SampleRanges ranges(1, false);
    see(ranges, {2.0f});
    CHECK(ranges.range(std::nullopt, {}).minimum == 0.0f);
    CHECK(ranges.range(std::nullopt, {}).largest_magnitude() == 2.0f);
}

TEST_CASE("samples that nothing was seen of count for nothing") {
    SampleRanges ranges(1, true);
    ranges.next_sample();
    CHECK(ranges.empty());
    see(ranges, {4.0f});
    ranges.next_sample();
    ranges.next_sample();
    see(ranges, {2.0f});
    CHECK(ranges.range(0.5, {}).maximum == 3.0f);
}

}  // namespace
}  // namespace nvllm::quantize
