// Parsing and comparing.
#include "lib/server/operations/alert_rules.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "kernels/error.h"
#include "lib/base/log.h"
#include "lib/base/option_values.h"

namespace nvllm::server {
namespace {

using Comparison = AlertRule::Comparison;

// Longer ones first: ">=" begins with ">".
constexpr std::array kComparisons = {
    std::pair<std::string_view, Comparison>{">=", Comparison::at_least},
    std::pair<std::string_view, Comparison>{"<=", Comparison::at_most},
    std::pair<std::string_view, Comparison>{"==", Comparison::equal},
    std::pair<std::string_view, Comparison>{"!=", Comparison::unequal},
    std::pair<std::string_view, Comparison>{">", Comparison::above},
    std::pair<std::string_view, Comparison>{"<", Comparison::below},
};

std::string_view trimmed(std::string_view text) {
    const size_t begin = text.find_first_not_of(" \t");
    if (begin == std::string_view::npos) return {};
    return text.substr(begin, text.find_last_not_of(" \t") - begin + 1);
}

bool is_letter(char letter) {
    return (letter >= 'a' && letter <= 'z') || (letter >= 'A' && letter <= 'Z') || letter == '_' ||
           letter == ':';
}

// A name, and perhaps labels in braces.
bool is_metric(std::string_view text) {
    const std::string_view name = text.substr(0, text.find('{'));
    const std::string_view labels = text.substr(name.size());
    const bool is_name =
        !name.empty() && is_letter(name[0]) && std::ranges::all_of(name, [](char letter) {
            return is_letter(letter) || (letter >= '0' && letter <= '9');
        });
    return is_name && (labels.empty() || labels.ends_with('}'));
}

// The one that is farthest beyond the threshold; nothing when none is.
std::optional<double> worst_of(const AlertRule& rule, const std::vector<double>& values) {
    const bool is_low_worse =
        rule.comparison == Comparison::below || rule.comparison == Comparison::at_most;
    std::optional<double> worst;
    for (const double value : values) {
        if (!rule.evaluate(value)) continue;
        const bool is_worse = !worst || (is_low_worse ? value < *worst : value > *worst);
        if (is_worse) worst = value;
    }
    return worst;
}

}  // namespace

std::optional<AlertRule> AlertRule::parse(std::string_view text) {
    AlertRule rule;
    rule.text = trimmed(text);
    const size_t labels = rule.text.find('{');
    const size_t after = labels == std::string::npos ? 0 : rule.text.rfind('}');
    const size_t sign = rule.text.find_first_of("<>=!", std::min(after, rule.text.size()));
    if (sign == std::string::npos) return std::nullopt;
    const std::string_view rest = std::string_view(rule.text).substr(sign);
    const auto found = std::ranges::find_if(
        kComparisons, [&](const auto& row) { return rest.starts_with(row.first); });
    if (found == kComparisons.end()) return std::nullopt;
    const auto threshold = parse_number(trimmed(rest.substr(found->first.size())));
    rule.metric = trimmed(std::string_view(rule.text).substr(0, sign));
    if (!threshold || !is_metric(rule.metric)) return std::nullopt;
    rule.comparison = found->second;
    rule.threshold = *threshold;
    return rule;
}

bool AlertRule::evaluate(double value) const {
    switch (comparison) {
        case Comparison::above:
            return value > threshold;
        case Comparison::at_least:
            return value >= threshold;
        case Comparison::below:
            return value < threshold;
        case Comparison::at_most:
            return value <= threshold;
        case Comparison::equal:
            return value == threshold;
        case Comparison::unequal:
            break;
    }
    return value != threshold;
}

std::string AlertChange::message() const {
    const std::string state = holds ? "alert" : "alert over";
    return fmt::format("{}: {} ({})", state, rule,
                       value ? fmt::format("it is {}", *value) : "there is no value");
}

AlertRules::AlertRules(std::span<const std::string> texts) {
    for (const std::string& text : texts) {
        auto rule = AlertRule::parse(text);
        if (!rule) {
            throw Error(ErrorKind::usage,
                        fmt::format("--alert-rules: '{}' is not METRIC OP NUMBER, such as "
                                    "nvllm_requests_in_flight > 100",
                                    text));
        }
        watched_.push_back({std::move(*rule), false});
    }
}

std::vector<AlertChange> AlertRules::update(const MetricLookup& lookup) {
    std::vector<AlertChange> changes;
    for (Watched& watched : watched_) {
        const std::vector<double> values = lookup(watched.rule.metric);
        const std::optional<double> worst = worst_of(watched.rule, values);
        const bool holds = worst.has_value();
        if (holds == std::exchange(watched.holds, holds)) continue;
        AlertChange& change = changes.emplace_back(AlertChange{watched.rule.text, holds, {}});
        if (!values.empty()) change.value = holds ? *worst : values.front();
    }
    return changes;
}

std::vector<std::string> AlertRules::holding() const {
    std::vector<std::string> texts;
    for (const Watched& watched : watched_) {
        if (watched.holds) texts.push_back(watched.rule.text);
    }
    return texts;
}

MetricLookup lookup_in_scrape(std::string text) {
    return [text = std::move(text)](std::string_view metric) {
        std::vector<double> values;
        for (size_t begin = 0; begin < text.size();) {
            const size_t end = std::min(text.find('\n', begin), text.size());
            const std::string_view line(text.data() + begin, end - begin);
            begin = end + 1;
            const bool is_it = line.starts_with(metric) && line.size() > metric.size() &&
                               (line[metric.size()] == ' ' || line[metric.size()] == '{');
            if (!is_it) continue;
            if (const auto value = parse_number(line.substr(line.rfind(' ') + 1))) {
                values.push_back(*value);
            }
        }
        return values;
    };
}

AlertRules make_alert_rules(const AlertOptions& options) {
    std::vector<std::string> texts = options.rules;
    if (options.temperature) {
        texts.push_back(fmt::format("nvllm_device_temperature_celsius > {}", *options.temperature));
    }
    return AlertRules(texts);
}

void log_alert_changes(std::span<const AlertChange> changes) {
    for (const AlertChange& change : changes) {
        log_message(change.holds ? LogLevel::warning : LogLevel::info, change.message());
    }
}

}  // namespace nvllm::server
