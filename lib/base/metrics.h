// Counters, gauges and histograms, and their text as Prometheus reads it (format 0.0.4).
//
// A family has a name, a help line and label names; its children are distinguished by label values.
// A family holds a bounded number of children, whatever values it is asked for: those beyond share
// one whose values are all "other". Families and children live as long as the registry and do not
// move: code that counts often stores the reference that with() returned.
//
// Threads: any. Counting is an atomic operation or two and takes no lock; with() and text() lock.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace nvllm {

enum class MetricType : uint8_t { counter, gauge, histogram };

class Counter {
  public:
    void add(uint64_t amount = 1) { value_.fetch_add(amount, std::memory_order_relaxed); }
    // Takes over a count that is kept elsewhere; one that is smaller than before changes nothing.
    // REQUIRES: no other thread changes this counter at the same time.
    void raise_to(uint64_t value) {
        if (value > this->value()) value_.store(value, std::memory_order_relaxed);
    }
    uint64_t value() const { return value_.load(std::memory_order_relaxed); }

  private:
    std::atomic<uint64_t> value_{0};
};

class Gauge {
  public:
    // A value that is not a number, like forget(), leaves the gauge out of the text.
    void set(double value) { value_.store(value, std::memory_order_relaxed); }
    void add(double amount) { value_.fetch_add(amount, std::memory_order_relaxed); }
    void forget() { set(std::numeric_limits<double>::quiet_NaN()); }
    double value() const { return value_.load(std::memory_order_relaxed); }

  private:
    std::atomic<double> value_{0.0};
};

class Histogram {
  public:
    // REQUIRES: at least one edge; edges are finite and rise.
    explicit Histogram(std::span<const double> edges);

    // Counts the value in the first bucket whose edge is not below it. A value that is not finite
    // would spoil the sum for ever and is not counted.
    void observe(double value);

    std::span<const double> edges() const { return edges_; }
    // How many values lie in each bucket alone; the last one is above all edges.
    std::vector<uint64_t> counts() const;
    double sum() const { return sum_.load(std::memory_order_relaxed); }

  private:
    std::vector<double> edges_;
    std::vector<std::atomic<uint64_t>> counts_;
    std::atomic<double> sum_{0.0};
};

// How a family is shown: under its own name, or under another one besides.
struct MetricView {
    std::string name;
    std::string help;
    std::string constant_label = {};  // as in the text, `engine="0"`, before the others; or empty
    std::vector<double> edges = {};   // of a histogram: some of its own; empty: all of them
};

// What all families have.
struct FamilyShape {
    MetricType type = MetricType::counter;
    std::vector<std::string> label_names = {};
    size_t max_children = 1;
    std::vector<double> edges = {};  // of histograms
};

class MetricFamily {
  public:
    explicit MetricFamily(FamilyShape shape);
    virtual ~MetricFamily() = default;
    MetricFamily(const MetricFamily&) = delete;
    MetricFamily& operator=(const MetricFamily&) = delete;

    // Empty when no child has a value.
    virtual std::string text(const MetricView& view) const = 0;
    const FamilyShape& shape() const { return shape_; }

  protected:
    // `name="value",...` with the values escaped. REQUIRES: one value for each name.
    std::string labels(std::span<const std::string_view> values) const;
    std::string other_labels() const;

  private:
    FamilyShape shape_;
};

template <typename Metric>
class Family : public MetricFamily {
  public:
    using MetricFamily::MetricFamily;

    // The child with these label values, made when it is not there; the one for all others when
    // there are enough. REQUIRES: one value for each label name.
    Metric& with(std::span<const std::string_view> values);
    Metric& with(std::initializer_list<std::string_view> values) {
        return with(std::span(values.begin(), values.size()));
    }
    // The child is gone. REQUIRES: no reference to it is kept.
    void remove(std::span<const std::string_view> values);
    std::string text(const MetricView& view) const override;

  private:
    std::unique_ptr<Metric> make() const;

    mutable std::mutex mutex_;
    std::map<std::string, std::unique_ptr<Metric>> children_;  // by their labels in the text
};

using CounterFamily = Family<Counter>;
using GaugeFamily = Family<Gauge>;
using HistogramFamily = Family<Histogram>;

class MetricsRegistry {
  public:
    static constexpr size_t kMaxChildren = 256;

    MetricsRegistry() = default;
    MetricsRegistry(const MetricsRegistry&) = delete;
    MetricsRegistry& operator=(const MetricsRegistry&) = delete;

    // REQUIRES, of all: no family or view of this name exists; names of metrics have the letters
    // [a-zA-Z0-9_:], those of labels [a-zA-Z0-9_], and neither begins with a digit.
    CounterFamily& counter(std::string name, std::string help,
                           std::vector<std::string> label_names = {},
                           size_t max_children = kMaxChildren);
    GaugeFamily& gauge(std::string name, std::string help,
                       std::vector<std::string> label_names = {},
                       size_t max_children = kMaxChildren);
    HistogramFamily& histogram(std::string name, std::string help, std::vector<double> edges,
                               std::vector<std::string> label_names = {},
                               size_t max_children = kMaxChildren);
    // One value without labels that is asked for when the text is made; left out while it is not a
    // number. REQUIRES: counter or gauge; the function may be called from any thread, and makes no
    // text.
    void function(MetricType type, std::string name, std::string help,
                  std::function<double()> value);
    // Shows the family under a further name. REQUIRES: it is of this registry; the view's edges are
    // some of the family's.
    void view(const MetricFamily& family, MetricView view);

    // Called at the beginning of every text(), one caller at a time: to set what is not counted as
    // it happens. It makes no text itself.
    void on_scrape(std::function<void()> refresh);

    // Everything, in the order in which it was declared.
    std::string text();

  private:
    struct Shown {
        const MetricFamily* family = nullptr;
        MetricView view;
    };

    template <typename Metric>
    Family<Metric>& add(FamilyShape shape, std::string name, std::string help);
    void keep(std::unique_ptr<MetricFamily> family, MetricView view);

    std::mutex scrape_mutex_;  // held while text() runs; taken before mutex_
    std::mutex mutex_;
    std::vector<std::unique_ptr<MetricFamily>> families_;
    std::vector<Shown> shown_;
    std::vector<std::function<void()>> refreshes_;
};

// 1, 2, 5, 10, 20, 50 ... up to `most`: edges for what is counted in tokens. REQUIRES: 1 <= most <=
// 10^15.
std::vector<double> one_two_five_edges(int64_t most);

}  // namespace nvllm
