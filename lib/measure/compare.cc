// Finds the metrics that two results share and tests them.
#include "lib/measure/compare.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <nlohmann/json.hpp>
#include <numeric>
#include <set>

namespace nvllm {
namespace {

using Json = nlohmann::ordered_json;
constexpr double kLevel = 0.05;
constexpr int kMaxDepth = 16;

bool is_samples(const Json& value) {
    return value.is_array() && !value.empty() &&
           std::ranges::all_of(value, [](const Json& one) { return one.is_number(); });
}

std::vector<double> numbers_of(const Json& value) {
    if (value.is_number()) return {value.get<double>()};
    return value.get<std::vector<double>>();
}

// What an object in a list is known by; empty: nothing.
std::string label_of(const Json& object) {
    for (const char* key : {"test", "op", "name"}) {
        const auto found = object.is_object() ? object.find(key) : object.end();
        if (object.is_object() && found != object.end() && found->is_string()) {
            return found->get<std::string>();
        }
    }
    return "";
}

// "ns" of "samples_ns", "avg_ns", "p99_ns": the figure that samples and what sums them up share.
std::string figure_of(const std::string& key) {
    constexpr std::array kStatistics = {"samples_", "avg_",    "mean_", "median_",
                                        "std_",     "stddev_", "min_",  "max_"};
    for (const char* statistic : kStatistics) {
        if (key.starts_with(statistic)) return key.substr(std::strlen(statistic));
    }
    const size_t end = key.find('_');
    const bool is_percentile =
        key.starts_with('p') && end != std::string::npos && end > 1 &&
        std::all_of(key.begin() + 1, key.begin() + static_cast<ptrdiff_t>(end),
                    [](char c) { return (c >= '0' && c <= '9') || c == '.'; });
    return is_percentile ? key.substr(end + 1) : key;
}

// The metrics of which the object has samples, in itself or under "samples".
std::set<std::string> sampled_stats(const Json& object) {
    std::set<std::string> stats;
    const auto add = [&](const Json& from) {
        for (const auto& [key, value] : from.items()) {
            if (is_samples(value) && value.size() > 1) stats.insert(figure_of(key));
        }
    };
    add(object);
    const auto samples = object.find("samples");
    if (samples != object.end() && samples->is_object()) add(*samples);
    return stats;
}

std::string without(std::string name, const std::string& word) {
    for (size_t at = name.find(word); at != std::string::npos; at = name.find(word)) {
        name.erase(at, word.size());
    }
    return name;
}

class Walker {
  public:
    explicit Walker(uint64_t seed) : seed_(seed) {}

    void walk(const Json& a, const Json& b, const std::string& name, int depth) {
        const bool has_figure_a = a.is_number() || is_samples(a);
        const bool has_figure_b = b.is_number() || is_samples(b);
        if (has_figure_a && has_figure_b) return add(name, numbers_of(a), numbers_of(b));
        if (depth == kMaxDepth) return;
        if (a.is_object() && b.is_object()) return walk_object(a, b, name, depth);
        if (a.is_array() && b.is_array()) walk_list(a, b, name, depth);
    }

    std::vector<Comparison> take() { return std::move(rows_); }

  private:
    static std::string joined(const std::string& name, const std::string& key) {
        return name.empty() ? key : name + "." + key;
    }
    void walk_object(const Json& a, const Json& b, const std::string& name, int depth) {
        const std::set<std::string> sampled = sampled_stats(a);
        for (const auto& [key, value] : a.items()) {
            const auto other = b.find(key);
            if (key == "environment" || key == "seed" || other == b.end()) continue;
            if (value.is_number() && sampled.contains(figure_of(key))) continue;
            walk(value, *other, joined(name, key), depth + 1);
        }
    }
    void walk_list(const Json& a, const Json& b, const std::string& name, int depth) {
        for (const Json& one : a) {
            const std::string label = label_of(one);
            const auto other = std::ranges::find_if(
                b, [&](const Json& candidate) { return label_of(candidate) == label; });
            if (label.empty() || other == b.end()) continue;
            walk(one, *other, joined(name, label), depth + 1);
        }
    }
    void add(const std::string& name, const std::vector<double>& a, const std::vector<double>& b) {
        Comparison row{.name = name,
                       .a = mean(a),
                       .b = mean(b),
                       .num_a = a.size(),
                       .num_b = b.size(),
                       .interval = {}};
        row.ratio = row.a == 0.0 ? 0.0 : row.b / row.a;
        row.has_samples = a.size() > 1 && b.size() > 1 && row.a != 0.0;
        if (row.has_samples) {
            row.interval = bootstrap_ratio(b, a, 1.0 - kLevel, seed_);
            row.p_value = welch_test(a, b).p_value;
        }
        rows_.push_back(std::move(row));
    }

    uint64_t seed_;
    std::vector<Comparison> rows_;
};

}  // namespace

std::vector<Comparison> compare_results(const Json& a, const Json& b, uint64_t seed) {
    Walker walker(seed);
    walker.walk(a, b, "", 0);
    return walker.take();
}

std::vector<bool> differing_rows(const std::vector<Comparison>& rows) {
    std::vector<size_t> order;
    for (size_t i = 0; i < rows.size(); ++i) {
        if (rows[i].has_samples) order.push_back(i);
    }
    std::ranges::sort(order, {}, [&](size_t i) { return rows[i].p_value; });
    std::vector<bool> differs(rows.size(), false);
    for (size_t place = 0; place < order.size(); ++place) {
        const double level = kLevel / static_cast<double>(order.size() - place);
        if (rows[order[place]].p_value > level) break;
        differs[order[place]] = true;
    }
    return differs;
}

namespace {

std::string shown_name(const Comparison& row) {
    return without(without(row.name, "samples."), "samples_");
}

}  // namespace

std::string comparison_table(const std::vector<Comparison>& rows) {
    const std::vector<bool> differs = differing_rows(rows);
    std::string text = fmt::format("{:<52} {:>12} {:>12} {:>8} {:>17} {:>9}  {}\n", "figure", "A",
                                   "B", "B / A", "95 % interval", "p", "verdict");
    for (size_t i = 0; i < rows.size(); ++i) {
        const Comparison& row = rows[i];
        if (row.has_samples) {
            text +=
                fmt::format("{:<52} {:>12.6g} {:>12.6g} {:>8.4f} {:>8.4f} {:>8.4f} {:>9.2g}  {}\n",
                            shown_name(row), row.a, row.b, row.ratio, row.interval.low,
                            row.interval.high, row.p_value, differs[i] ? "differs" : "not shown");
        } else if (row.a != row.b) {
            text +=
                fmt::format("{:<52} {:>12.6g} {:>12.6g} {:>8.4f} {:>17} {:>9}  one value each\n",
                            shown_name(row), row.a, row.b, row.ratio, "-", "-");
        }
    }
    return text;
}

Json comparison_json(const std::vector<Comparison>& rows) {
    const std::vector<bool> differs = differing_rows(rows);
    Json list = Json::array();
    for (size_t i = 0; i < rows.size(); ++i) {
        const Comparison& row = rows[i];
        Json object = {{"name", row.name},   {"a", row.a},         {"b", row.b},
                       {"num_a", row.num_a}, {"num_b", row.num_b}, {"ratio", row.ratio}};
        if (row.has_samples) {
            object["ratio_low"] = row.interval.low;
            object["ratio_high"] = row.interval.high;
            object["p_value"] = row.p_value;
            object["differs"] = static_cast<bool>(differs[i]);
        }
        list.push_back(std::move(object));
    }
    return list;
}

}  // namespace nvllm
