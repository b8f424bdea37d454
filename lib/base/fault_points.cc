// Reads the rules and counts hits.
#include "lib/base/fault_points.h"

#ifdef NVLLM_FAULT_POINTS

#include <fmt/format.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <new>
#include <optional>
#include <string_view>
#include <thread>
#include <vector>

#include "kernels/error.h"
#include "lib/base/option_values.h"

namespace nvllm {
namespace {

enum class Action { throw_error, bad_alloc, sleep, abort, kill, say, nan, error_number };

struct Rule {
    std::string site;
    std::optional<int64_t> subject;
    int64_t first_hit = 1;
    bool goes_on = false;  // after the first hit
    Action action = Action::throw_error;
    int64_t argument = 0;  // milliseconds or errno
    int64_t num_hits = 0;
};

[[noreturn]] void refuse(std::string_view rule) {
    throw Error(ErrorKind::usage,
                fmt::format("NVLLM_FAULTS: '{}' is no rule such as worker.step:3=abort", rule));
}

int64_t number_or_refuse(std::string_view text, std::string_view rule) {
    const auto number = parse_integer<int64_t>(text);
    if (!number || *number < 0) refuse(rule);
    return *number;
}

void read_hit(std::string_view text, std::string_view rule, Rule& result) {
    result.goes_on = text == "*" || text.ends_with('+');
    if (text == "*") return;
    if (result.goes_on) text.remove_suffix(1);
    result.first_hit = number_or_refuse(text, rule);
}

void read_action(std::string_view text, std::string_view rule, Rule& result) {
    const size_t equals = text.find('=');
    const std::string_view name = text.substr(0, equals);
    const bool takes_argument = name == "sleep" || name == "errno";
    if (takes_argument != (equals != std::string_view::npos)) refuse(rule);
    if (takes_argument) result.argument = number_or_refuse(text.substr(equals + 1), rule);
    if (name == "throw") {
        result.action = Action::throw_error;
    } else if (name == "bad_alloc") {
        result.action = Action::bad_alloc;
    } else if (name == "sleep") {
        result.action = Action::sleep;
    } else if (name == "abort") {
        result.action = Action::abort;
    } else if (name == "kill") {
        result.action = Action::kill;
    } else if (name == "say") {
        result.action = Action::say;
    } else if (name == "nan") {
        result.action = Action::nan;
    } else if (name == "errno") {
        result.action = Action::error_number;
    } else {
        refuse(rule);
    }
}

Rule read_rule(std::string_view text) {
    Rule rule;
    const size_t colon = text.find(':');
    if (colon == std::string_view::npos) refuse(text);
    const size_t equals = text.find('=', colon);
    if (equals == std::string_view::npos) refuse(text);
    const std::string_view place = text.substr(0, colon);
    const size_t at = place.find('@');
    rule.site = place.substr(0, at);
    if (at != std::string_view::npos) rule.subject = number_or_refuse(place.substr(at + 1), text);
    read_hit(text.substr(colon + 1, equals - colon - 1), text, rule);
    read_action(text.substr(equals + 1), text, rule);
    return rule;
}

std::vector<Rule> read_rules(std::string_view text) {
    std::vector<Rule> rules;
    while (!text.empty()) {
        const size_t end = std::min(text.find(';'), text.size());
        if (end > 0) rules.push_back(read_rule(text.substr(0, end)));
        text.remove_prefix(std::min(end + 1, text.size()));
    }
    return rules;
}

// The rules in force.
class FaultPoints {
  public:
    FaultPoints() {
        const char* given = std::getenv("NVLLM_FAULTS");
        if (given != nullptr) set(given);
    }

    void set(const std::string& text) {
        std::vector<Rule> rules = read_rules(text);
        const std::lock_guard lock(mutex_);
        rules_ = std::move(rules);
        has_rules_ = !rules_.empty();
    }

    // The rules that strike now.
    std::vector<Rule> hit(std::string_view site, int64_t subject) {
        std::vector<Rule> striking;
        if (!has_rules_) return striking;
        const std::lock_guard lock(mutex_);
        for (Rule& rule : rules_) {
            if (rule.site != site || (rule.subject && *rule.subject != subject)) continue;
            ++rule.num_hits;
            const bool strikes =
                rule.goes_on ? rule.num_hits >= rule.first_hit : rule.num_hits == rule.first_hit;
            if (strikes) striking.push_back(rule);
        }
        return striking;
    }

  private:
    std::mutex mutex_;
    std::vector<Rule> rules_;
    std::atomic<bool> has_rules_ = false;
};

FaultPoints& fault_points() {
    static FaultPoints points;
    return points;
}

void carry_out(const Rule& rule, InjectedFault& injected) {
    switch (rule.action) {
        case Action::throw_error:
            throw Error(ErrorKind::internal, "fault point " + rule.site);
        case Action::bad_alloc:
            throw std::bad_alloc();
        case Action::sleep:
            std::this_thread::sleep_for(std::chrono::milliseconds(rule.argument));
            return;
        case Action::abort:
            std::abort();
        case Action::kill:
            std::raise(SIGKILL);
            return;
        case Action::say:
            fmt::print(stderr, "fault point {}\n", rule.site);
            return;
        case Action::nan:
            injected.not_a_number = true;
            return;
        case Action::error_number:
            injected.error_number = static_cast<int>(rule.argument);
            return;
    }
}

}  // namespace

InjectedFault fault_point(const char* site, int64_t subject) {
    InjectedFault injected;
    for (const Rule& rule : fault_points().hit(site, subject)) carry_out(rule, injected);
    return injected;
}

void set_fault_points(const std::string& rules) { fault_points().set(rules); }

}  // namespace nvllm

#endif
