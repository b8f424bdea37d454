// A strict reader of Prometheus' text format 0.0.4, for what our own writer makes: it takes less
// than Prometheus does.
#pragma once

#include <cmath>
#include <cstdlib>
#include <limits>
#include <map>
#include <set>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace nvllm::test {

using Labels = std::map<std::string, std::string>;

struct PrometheusFamily {
    std::string help;
    std::string type;
    // By the sample's name (with _bucket, _sum, _count for histograms) and its labels.
    std::map<std::pair<std::string, Labels>, double> samples;
};

class PrometheusText {
  public:
    // Throws std::runtime_error for anything that is not in order.
    explicit PrometheusText(std::string_view text) {
        if (!text.empty() && text.back() != '\n') fail("the last line does not end");
        while (!text.empty()) {
            const size_t end = text.find('\n');
            read_line(text.substr(0, end));
            text.remove_prefix(end + 1);
        }
        for (const auto& [name, family] : families_) check(name, family);
    }

    const std::map<std::string, PrometheusFamily>& families() const { return families_; }
    bool has(const std::string& family) const { return families_.count(family) > 0; }
    size_t num_samples() const {
        size_t total = 0;
        for (const auto& [name, family] : families_) total += family.samples.size();
        return total;
    }
    // NaN when there is none.
    double value(const std::string& sample, const Labels& labels = {}) const {
        for (const auto& [name, family] : families_) {
            const auto found = family.samples.find({sample, labels});
            if (found != family.samples.end()) return found->second;
        }
        return std::numeric_limits<double>::quiet_NaN();
    }
    // Over all samples of this name that have these labels among theirs.
    double sum(const std::string& sample, const Labels& labels = {}) const {
        double total = 0.0;
        for (const auto& [name, family] : families_) {
            for (const auto& [key, value] : family.samples) {
                if (key.first == sample && contains(key.second, labels)) total += value;
            }
        }
        return total;
    }

  private:
    static bool contains(const Labels& all, const Labels& some) {
        for (const auto& [name, value] : some) {
            const auto found = all.find(name);
            if (found == all.end() || found->second != value) return false;
        }
        return true;
    }

    [[noreturn]] static void fail(const std::string& what) { throw std::runtime_error(what); }

    static std::string take_name(std::string_view& line, bool may_have_colons) {
        size_t length = 0;
        while (length < line.size()) {
            const char letter = line[length];
            const bool digit = letter >= '0' && letter <= '9';
            const bool fits = (letter >= 'a' && letter <= 'z') ||
                              (letter >= 'A' && letter <= 'Z') || letter == '_' ||
                              (digit && length > 0) || (may_have_colons && letter == ':');
            if (!fits) break;
            ++length;
        }
        if (length == 0) fail("no name: " + std::string(line));
        std::string name(line.substr(0, length));
        line.remove_prefix(length);
        return name;
    }

    static void expect(std::string_view& line, std::string_view text) {
        if (!line.starts_with(text)) {
            fail("expected '" + std::string(text) + "' at '" + std::string(line) + "'");
        }
        line.remove_prefix(text.size());
    }

    static std::string take_quoted(std::string_view& line) {
        expect(line, "\"");
        std::string value;
        while (!line.starts_with("\"")) {
            if (line.empty()) fail("a label's value does not end");
            char letter = line[0];
            if (letter == '\\') {
                line.remove_prefix(1);
                if (line.empty() || std::string_view("\\n\"").find(line[0]) == line.npos) {
                    fail("no such escape");
                }
                letter = line[0] == 'n' ? '\n' : line[0];
            }
            value.push_back(letter);
            line.remove_prefix(1);
        }
        line.remove_prefix(1);
        return value;
    }

    static Labels take_labels(std::string_view& line) {
        Labels labels;
        if (!line.starts_with("{")) return labels;
        do {
            line.remove_prefix(1);
            const std::string name = take_name(line, false);
            expect(line, "=");
            if (!labels.emplace(name, take_quoted(line)).second) fail("a label twice: " + name);
        } while (line.starts_with(","));
        expect(line, "}");
        return labels;
    }

    static double take_number(std::string_view line) {
        if (line == "+Inf") return std::numeric_limits<double>::infinity();
        const std::string text(line);
        char* end = nullptr;
        const double value = std::strtod(text.c_str(), &end);
        const bool plain = text.find_first_not_of("0123456789+-.e") == std::string::npos;
        if (text.empty() || *end != '\0' || !plain) fail("no number: " + text);
        if (value == std::trunc(value) && std::abs(value) < 1e15 &&
            text.find('.') != std::string::npos) {
            fail("an integer that is not written as one: " + text);
        }
        return value;
    }

    void read_line(std::string_view line) {
        if (line.starts_with("# HELP ")) {
            line.remove_prefix(7);
            current_ = take_name(line, true);
            expect(line, " ");
            if (!families_.try_emplace(current_).second) fail("a family twice: " + current_);
            families_[current_].help = std::string(line);
            if (line.empty()) fail("no help for " + current_);
        } else if (line.starts_with("# TYPE ")) {
            line.remove_prefix(7);
            if (take_name(line, true) != current_) fail("the type of another family");
            expect(line, " ");
            if (!families_[current_].type.empty()) fail("two types of " + current_);
            families_[current_].type = std::string(line);
        } else {
            read_sample(line);
        }
    }

    void read_sample(std::string_view line) {
        const std::string name = take_name(line, true);
        PrometheusFamily& family = families_[current_];
        std::set<std::string> names = {current_};
        if (family.type == "histogram") {
            names = {current_ + "_bucket", current_ + "_sum", current_ + "_count"};
        }
        if (names.count(name) == 0) fail("a sample out of its family: " + name);
        Labels labels = take_labels(line);
        expect(line, " ");
        if (!family.samples.emplace(std::pair(name, std::move(labels)), take_number(line)).second) {
            fail("a sample twice: " + name);
        }
    }

    static void check(const std::string& name, const PrometheusFamily& family) {
        if (family.samples.empty()) fail("a family without samples: " + name);
        if (family.type == "counter") {
            for (const auto& [key, value] : family.samples) {
                if (value < 0.0) fail("a counter below zero: " + name);
            }
        } else if (family.type == "histogram") {
            check_histogram(name, family);
        } else if (family.type != "gauge") {
            fail("no such type: " + family.type);
        }
    }

    static void check_histogram(const std::string& name, const PrometheusFamily& family) {
        std::map<Labels, std::map<double, double>> buckets;
        for (const auto& [key, value] : family.samples) {
            if (key.first != name + "_bucket") continue;
            Labels labels = key.second;
            if (labels.count("le") == 0) fail("a bucket without an edge: " + name);
            const double edge = take_number(labels.at("le"));
            labels.erase("le");
            buckets[labels][edge] = value;
        }
        if (buckets.empty()) fail("a histogram without buckets: " + name);
        for (const auto& [labels, edges] : buckets) {
            double before = 0.0;
            for (const auto& [edge, value] : edges) {
                if (value < before) fail("buckets that fall: " + name);
                before = value;
            }
            if (!std::isinf(edges.rbegin()->first)) fail("no last bucket: " + name);
            const auto count = family.samples.find({name + "_count", labels});
            if (count == family.samples.end() || count->second != before) fail("count: " + name);
            if (family.samples.count({name + "_sum", labels}) == 0) fail("no sum: " + name);
        }
    }

    std::map<std::string, PrometheusFamily> families_;
    std::string current_;
};

}  // namespace nvllm::test
