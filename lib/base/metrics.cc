// Children by label values, and the text format.
#include "lib/base/metrics.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <type_traits>
#include <utility>

#include "kernels/error.h"
#include "lib/base/utf8.h"

namespace nvllm {
namespace {

constexpr std::string_view kOther = "other";
constexpr double kLargestWholeNumber = 9007199254740992.0;  // 2^53: above it doubles skip integers

bool is_letter(char letter) {
    return (letter >= 'a' && letter <= 'z') || (letter >= 'A' && letter <= 'Z') || letter == '_';
}

bool is_name(std::string_view name, bool may_have_colons) {
    const auto fits = [&](char letter) {
        return is_letter(letter) || (letter >= '0' && letter <= '9') ||
               (may_have_colons && letter == ':');
    };
    return !name.empty() && fits(name[0]) && !(name[0] >= '0' && name[0] <= '9') &&
           std::ranges::all_of(name, fits);
}

void check_edges(std::span<const double> edges) {
    NVLLM_CHECK(!edges.empty(), "a histogram has edges");
    for (size_t i = 0; i < edges.size(); ++i) {
        NVLLM_CHECK(std::isfinite(edges[i]) && (i == 0 || edges[i - 1] < edges[i]),
                    "the edges of a histogram are finite and rise");
    }
}

std::string escaped(std::string_view text, bool quotes_too) {
    std::string result;
    for (const char letter : text) {
        if (letter == '\n') {
            result += "\\n";
            continue;
        }
        if (letter == '\\' || (quotes_too && letter == '"')) result.push_back('\\');
        result.push_back(letter);
    }
    return result;
}

std::string number(double value) {
    if (std::isinf(value)) return value > 0.0 ? "+Inf" : "-Inf";
    if (std::trunc(value) == value && std::abs(value) < kLargestWholeNumber) {
        return fmt::format("{}", static_cast<int64_t>(value));
    }
    return fmt::format("{}", value);
}

const char* type_name(MetricType type) {
    switch (type) {
        case MetricType::counter:
            return "counter";
        case MetricType::gauge:
            return "gauge";
        case MetricType::histogram:
            return "histogram";
    }
    return "untyped";
}

// "{a,b}" of what is not empty; nothing for nothing.
std::string braces(std::initializer_list<std::string_view> parts) {
    std::string inside;
    for (const std::string_view part : parts) {
        if (part.empty()) continue;
        if (!inside.empty()) inside.push_back(',');
        inside += part;
    }
    return inside.empty() ? inside : "{" + inside + "}";
}

void append_sample(std::string& text, const MetricView& view, const std::string& labels,
                   const Counter& counter) {
    fmt::format_to(std::back_inserter(text), "{}{} {}\n", view.name,
                   braces({view.constant_label, labels}), counter.value());
}

void append_sample(std::string& text, const MetricView& view, const std::string& labels,
                   const Gauge& gauge) {
    const double value = gauge.value();
    if (std::isnan(value)) return;
    fmt::format_to(std::back_inserter(text), "{}{} {}\n", view.name,
                   braces({view.constant_label, labels}), number(value));
}

// The counts are read once, so that the last bucket and the count are always equal.
void append_sample(std::string& text, const MetricView& view, const std::string& labels,
                   const Histogram& histogram) {
    const std::vector<uint64_t> counts = histogram.counts();
    const std::span<const double> edges = histogram.edges();
    const std::span<const double> shown = view.edges.empty() ? edges : std::span(view.edges);
    const auto out = std::back_inserter(text);
    uint64_t total = 0;
    size_t next_shown = 0;
    for (size_t i = 0; i < edges.size(); ++i) {
        total += counts[i];
        if (next_shown == shown.size() || shown[next_shown] != edges[i]) continue;
        ++next_shown;
        const std::string edge = fmt::format("le=\"{}\"", number(edges[i]));
        fmt::format_to(out, "{}_bucket{} {}\n", view.name,
                       braces({view.constant_label, labels, edge}), total);
    }
    total += counts.back();
    fmt::format_to(out, "{}_bucket{} {}\n", view.name,
                   braces({view.constant_label, labels, "le=\"+Inf\""}), total);
    const std::string plain = braces({view.constant_label, labels});
    fmt::format_to(out, "{}_sum{} {}\n", view.name, plain, number(histogram.sum()));
    fmt::format_to(out, "{}_count{} {}\n", view.name, plain, total);
}

std::string heading(const MetricView& view, MetricType type) {
    return fmt::format("# HELP {} {}\n# TYPE {} {}\n", view.name, escaped(view.help, false),
                       view.name, type_name(type));
}

// Asked when the text is made.
class FunctionFamily : public MetricFamily {
  public:
    FunctionFamily(MetricType type, std::function<double()> value)
        : MetricFamily({.type = type}), value_(std::move(value)) {}

    std::string text(const MetricView& view) const override {
        const double value = value_();
        if (std::isnan(value)) return "";
        return heading(view, shape().type) + fmt::format("{} {}\n", view.name, number(value));
    }

  private:
    std::function<double()> value_;
};

}  // namespace

Histogram::Histogram(std::span<const double> edges)
    : edges_(edges.begin(), edges.end()), counts_(edges.size() + 1) {
    check_edges(edges);
}

void Histogram::observe(double value) {
    if (!std::isfinite(value)) return;
    const auto edge = std::ranges::lower_bound(edges_, value);
    counts_[static_cast<size_t>(edge - edges_.begin())].fetch_add(1, std::memory_order_relaxed);
    sum_.fetch_add(value, std::memory_order_relaxed);
}

std::vector<uint64_t> Histogram::counts() const {
    std::vector<uint64_t> counts;
    counts.reserve(counts_.size());
    for (const auto& count : counts_) counts.push_back(count.load(std::memory_order_relaxed));
    return counts;
}

MetricFamily::MetricFamily(FamilyShape shape) : shape_(std::move(shape)) {
    for (const std::string& name : shape_.label_names) {
        NVLLM_CHECK(is_name(name, false) && name != "le", "no name of a label: " + name);
    }
}

std::string MetricFamily::labels(std::span<const std::string_view> values) const {
    NVLLM_CHECK(values.size() == shape_.label_names.size(), "one value for each label");
    std::string text;
    for (size_t i = 0; i < values.size(); ++i) {
        if (i > 0) text.push_back(',');
        text += shape_.label_names[i] + "=\"";
        text += escaped(utf8::with_replacement(values[i]), true) + "\"";
    }
    return text;
}

std::string MetricFamily::other_labels() const {
    return labels(std::vector<std::string_view>(shape_.label_names.size(), kOther));
}

template <typename Metric>
Metric& Family<Metric>::with(std::span<const std::string_view> values) {
    std::string key = labels(values);
    const std::lock_guard lock(mutex_);
    auto found = children_.find(key);
    if (found == children_.end()) {
        if (children_.size() >= shape().max_children) key = other_labels();
        found = children_.try_emplace(std::move(key)).first;
        if (found->second == nullptr) found->second = make();
    }
    return *found->second;
}

template <typename Metric>
void Family<Metric>::remove(std::span<const std::string_view> values) {
    const std::lock_guard lock(mutex_);
    children_.erase(labels(values));
}

template <typename Metric>
std::string Family<Metric>::text(const MetricView& view) const {
    std::string samples;
    {
        const std::lock_guard lock(mutex_);
        for (const auto& [labels, metric] : children_) {
            append_sample(samples, view, labels, *metric);
        }
    }
    return samples.empty() ? samples : heading(view, shape().type) + samples;
}

template <typename Metric>
std::unique_ptr<Metric> Family<Metric>::make() const {
    if constexpr (std::is_same_v<Metric, Histogram>) {
        return std::make_unique<Histogram>(shape().edges);
    } else {
        return std::make_unique<Metric>();
    }
}

template class Family<Counter>;
template class Family<Gauge>;
template class Family<Histogram>;

template <typename Metric>
Family<Metric>& MetricsRegistry::add(FamilyShape shape, std::string name, std::string help) {
    auto family = std::make_unique<Family<Metric>>(std::move(shape));
    Family<Metric>& added = *family;
    keep(std::move(family), {std::move(name), std::move(help)});
    return added;
}

void MetricsRegistry::keep(std::unique_ptr<MetricFamily> family, MetricView view) {
    const MetricFamily& stored = *family;
    {
        const std::lock_guard lock(mutex_);
        families_.push_back(std::move(family));
    }
    this->view(stored, std::move(view));
}

CounterFamily& MetricsRegistry::counter(std::string name, std::string help,
                                        std::vector<std::string> label_names, size_t max_children) {
    return add<Counter>({MetricType::counter, std::move(label_names), max_children, {}},
                        std::move(name), std::move(help));
}

GaugeFamily& MetricsRegistry::gauge(std::string name, std::string help,
                                    std::vector<std::string> label_names, size_t max_children) {
    return add<Gauge>({MetricType::gauge, std::move(label_names), max_children, {}},
                      std::move(name), std::move(help));
}

HistogramFamily& MetricsRegistry::histogram(std::string name, std::string help,
                                            std::vector<double> edges,
                                            std::vector<std::string> label_names,
                                            size_t max_children) {
    check_edges(edges);
    return add<Histogram>(
        {MetricType::histogram, std::move(label_names), max_children, std::move(edges)},
        std::move(name), std::move(help));
}

void MetricsRegistry::function(MetricType type, std::string name, std::string help,
                               std::function<double()> value) {
    NVLLM_CHECK(type != MetricType::histogram, "a function has one value");
    keep(std::make_unique<FunctionFamily>(type, std::move(value)),
         {std::move(name), std::move(help)});
}

void MetricsRegistry::view(const MetricFamily& family, MetricView view) {
    NVLLM_CHECK(is_name(view.name, true), "no name of a metric: " + view.name);
    NVLLM_CHECK(std::ranges::includes(family.shape().edges, view.edges),
                "a view has some of the edges of its family: " + view.name);
    const std::lock_guard lock(mutex_);
    for (const Shown& other : shown_) {
        NVLLM_CHECK(other.view.name != view.name, "two metrics of one name: " + view.name);
    }
    shown_.push_back({&family, std::move(view)});
}

void MetricsRegistry::on_scrape(std::function<void()> refresh) {
    const std::lock_guard lock(mutex_);
    refreshes_.push_back(std::move(refresh));
}

// Refreshes and functions run without mutex_: they may declare families or models meanwhile.
std::string MetricsRegistry::text() {
    const std::lock_guard scrape(scrape_mutex_);
    std::vector<std::function<void()>> refreshes;
    {
        const std::lock_guard lock(mutex_);
        refreshes = refreshes_;
    }
    for (const auto& refresh : refreshes) refresh();
    std::vector<Shown> shown;
    {
        const std::lock_guard lock(mutex_);
        shown = shown_;
    }
    std::string text;
    for (const Shown& one : shown) text += one.family->text(one.view);
    return text;
}

std::vector<double> one_two_five_edges(int64_t most) {
    NVLLM_CHECK(most >= 1 && most <= int64_t{1'000'000'000'000'000}, "edges from 1 to 10^15");
    std::vector<double> edges;
    for (int64_t ten = 1;; ten *= 10) {
        for (const int64_t factor : {1, 2, 5}) {
            if (factor > most / ten) return edges;
            edges.push_back(static_cast<double>(factor * ten));
        }
    }
}

}  // namespace nvllm
