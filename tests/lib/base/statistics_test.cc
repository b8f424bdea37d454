// Statistics against values worked out apart.
#include "lib/base/statistics.h"

#include <doctest/doctest.h>

#include <vector>

#include "lib/base/random_source.h"

using namespace nvllm;

TEST_CASE("location and spread, by divisor n and n - 1") {
    const std::vector<double> samples = {4.0, 1.0, 2.0, 8.0, 5.0};
    CHECK(mean(samples) == 4.0);
    CHECK(median(samples) == 4.0);
    CHECK(population_deviation(samples) == doctest::Approx(2.4494897427831779));
    CHECK(sample_deviation(samples) == doctest::Approx(2.7386127875258306));
    CHECK(range_of(samples).low == 1.0);
    CHECK(range_of(samples).high == 8.0);
}

TEST_CASE("percentiles are linear between samples, as numpy.percentile") {
    const std::vector<double> samples = {15.0, 20.0, 35.0, 40.0, 50.0, 10.0};
    CHECK(percentile(samples, 0) == 10.0);
    CHECK(percentile(samples, 40) == doctest::Approx(20.0));
    CHECK(percentile(samples, 50) == doctest::Approx(27.5));
    CHECK(percentile(samples, 99) == doctest::Approx(49.5));
    CHECK(percentile(samples, 100) == 50.0);
    CHECK(percentile(std::vector<double>{7.0}, 99) == 7.0);
}

TEST_CASE("nothing measured is zero, not a division by it") {
    const std::vector<double> none;
    CHECK(mean(none) == 0.0);
    CHECK(median(none) == 0.0);
    CHECK(population_deviation(none) == 0.0);
    CHECK(sample_deviation(none) == 0.0);
    CHECK(percentile(none, 99) == 0.0);
    CHECK(sample_deviation(std::vector<double>{3.0}) == 0.0);
}

TEST_CASE("Welch's test agrees with numerical integration of the t density") {
    const std::vector<double> a = {27.5, 21.0, 19.0, 23.6, 17.0, 17.9, 16.9, 20.1};
    const std::vector<double> b = {27.1, 22.0, 20.8, 23.4, 23.4, 23.5, 25.8, 22.0};
    const WelchTest test = welch_test(a, b);
    CHECK(test.t == doctest::Approx(-2.1070883684));
    CHECK(test.degrees_of_freedom == doctest::Approx(11.0930111411));
    CHECK(test.p_value == doctest::Approx(0.0586666478));
    CHECK(welch_test(a, a).p_value == doctest::Approx(1.0));
}

TEST_CASE("Welch's test with nothing to judge by") {
    const std::vector<double> one = {1.0}, same = {2.0, 2.0}, other = {3.0, 3.0};
    CHECK(welch_test(one, same).p_value == 1.0);
    CHECK(welch_test(same, same).p_value == 1.0);
    CHECK(welch_test(same, other).p_value == 0.0);
}

TEST_CASE("a bootstrap interval holds the ratio, narrows to it, and repeats") {
    const std::vector<double> base = {10.0, 10.2, 9.8, 10.1, 9.9};
    const std::vector<double> twice = {20.0, 20.4, 19.6, 20.2, 19.8};
    const Interval interval = bootstrap_ratio(twice, base, 0.95, 1);
    CHECK(interval.low < 2.0);
    CHECK(interval.high > 2.0);
    CHECK(interval.low > 1.95);
    CHECK(interval.high < 2.05);
    CHECK(bootstrap_ratio(twice, base, 0.95, 1).low == interval.low);
    CHECK(bootstrap_ratio(std::vector<double>{3.0}, std::vector<double>{2.0}, 0.9, 0).low == 1.5);
}

TEST_CASE("random numbers repeat and have the moments they should") {
    RandomSource first(7), again(7), other(7, 1);
    CHECK(first.unit() == again.unit());
    CHECK(first.unit() != other.unit());
    std::vector<double> exponentials, gammas, small_gammas;
    for (int i = 0; i < 20000; ++i) {
        exponentials.push_back(first.exponential(2.0));
        gammas.push_back(first.gamma(4.0, 0.5));
        small_gammas.push_back(first.gamma(0.5, 2.0));
        const int64_t value = first.between(-3, 3);
        CHECK((value >= -3 && value <= 3));
    }
    CHECK(mean(exponentials) == doctest::Approx(2.0).epsilon(0.03));
    CHECK(mean(gammas) == doctest::Approx(2.0).epsilon(0.03));
    CHECK(population_deviation(gammas) == doctest::Approx(1.0).epsilon(0.03));
    CHECK(mean(small_gammas) == doctest::Approx(1.0).epsilon(0.05));
    CHECK(population_deviation(small_gammas) == doctest::Approx(1.414).epsilon(0.05));
}
