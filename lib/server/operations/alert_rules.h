// Thresholds that the operator wants to hear of: which of them hold, and what changed.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lib/server/operations/alert_options.h"

namespace nvllm::server {

// The values of a metric by its name, one for each set of labels it has; none when there is no such
// metric.
using MetricLookup = std::function<std::vector<double>(std::string_view metric)>;

// "METRIC OP NUMBER": "nvllm_requests_in_flight > 100". The metric may have labels in braces, which
// belong to its name.
struct AlertRule {
    enum class Comparison { above, at_least, below, at_most, equal, unequal };

    std::string text;
    std::string metric;
    Comparison comparison = Comparison::above;
    double threshold = 0.0;

    // Empty when the text is no rule.
    static std::optional<AlertRule> parse(std::string_view text);
    bool evaluate(double value) const;
};

// A rule began to hold, or ceased to.
struct AlertChange {
    std::string rule;
    bool holds = false;
    std::optional<double> value;  // the farthest beyond the threshold, or else the first

    // One line for the log.
    std::string message() const;
};

// One thread at a time.
class AlertRules {
  public:
    AlertRules() = default;
    // Throws usage for a text that is no rule.
    explicit AlertRules(std::span<const std::string> texts);

    // Looks at every metric and says what changed since the last time; at first nothing holds. A
    // rule holds when it does so for one of the metric's values.
    std::vector<AlertChange> update(const MetricLookup& lookup);
    // The rules that held at the last update.
    std::vector<std::string> holding() const;
    bool empty() const { return watched_.empty(); }

  private:
    struct Watched {
        AlertRule rule;
        bool holds = false;
    };
    std::vector<Watched> watched_;
};

// Looks metrics up in a scrape: a name with labels is one sample, a bare name all samples of it.
MetricLookup lookup_in_scrape(std::string text);

// Those of --alert-rules, and --temperature-alert as one more. Throws usage as the class does.
AlertRules make_alert_rules(const AlertOptions& options);

// One warning for each rule that began to hold, one info line for each that ceased to.
void log_alert_changes(std::span<const AlertChange> changes);

}  // namespace nvllm::server
