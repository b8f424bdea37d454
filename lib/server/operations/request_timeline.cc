// Keeping events, and writing them as bars.
//
// The format: "Trace Event Format", Google, 2016: complete events (X) for steps, nestable async
// events (b, e) for requests, counters (C) and names (M); times in microseconds.
#include "lib/server/operations/request_timeline.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>

#include "lib/base/json.h"

namespace nvllm::server {
namespace {

constexpr double kMicroseconds = 1e6;

}  // namespace

RequestTimeline::RequestTimeline(std::string engine_name, const TimelineSizes& sizes)
    : engine_name_(std::move(engine_name)), requests_(sizes.request_events), steps_(sizes.steps) {}

void RequestTimeline::observe_step(const StepRecord& step) {
    const std::lock_guard lock(mutex_);
    for (const RequestId request : step.preempted) {
        requests_.add({request, step.began_s, Kind::preempted});
    }
    for (const RequestId request : step.admitted) {
        requests_.add({request, step.began_s, Kind::try_admit});
    }
    steps_.add({step.plan_number, step.began_s, step.step_ms / 1000.0, step.num_sequences,
                step.num_tokens, step.num_running, step.num_waiting});
}

void RequestTimeline::first_token(RequestId request, const RequestTimes& times) {
    const std::lock_guard lock(mutex_);
    requests_.add({request, times.arrival_s, Kind::queued});
    if (times.first_scheduled_s)
        requests_.add({request, *times.first_scheduled_s, Kind::try_admit});
    if (times.first_token_s) requests_.add({request, *times.first_token_s, Kind::first_token});
}

void RequestTimeline::finished(RequestId request, const RequestTimes& times, FinishReason reason) {
    const auto end_of = [](FinishReason finish) {
        switch (finish) {
            case FinishReason::stop:
                return Kind::stopped;
            case FinishReason::length:
                return Kind::ran_out;
            case FinishReason::cancelled:
                return Kind::aborted;
            case FinishReason::error:
                break;
        }
        return Kind::failed;
    };
    const std::lock_guard lock(mutex_);
    if (!times.first_token_s) {
        requests_.add({request, times.arrival_s, Kind::queued});
        if (times.first_scheduled_s) {
            requests_.add({request, *times.first_scheduled_s, Kind::try_admit});
        }
    }
    requests_.add({request, times.finished_s.value_or(times.output_s), end_of(reason)});
}

// Makes the document from a copy of the rings.
class RequestTimeline::Writer {
  public:
    Writer(const std::string& engine_name, std::vector<RequestEvent> events,
           std::vector<Step> steps)
        : events_(std::move(events)), steps_(std::move(steps)) {
        add(R"({{"ph":"M","pid":1,"name":"process_name","args":{{"name":{}}}}})",
            json_quoted(engine_name));
        add(R"({{"ph":"M","pid":1,"tid":1,"name":"thread_name","args":{{"name":"steps"}}}})");
    }

    std::string document() {
        for (const Step& step : steps_) add_step(step);
        std::map<RequestId, std::vector<RequestEvent>> by_request;
        for (const RequestEvent& event : events_) by_request[event.request].push_back(event);
        for (auto& [request, events] : by_request) add_request(request, events);
        return R"({"displayTimeUnit":"ms","traceEvents":[)" + text_ + "\n]}\n";
    }

  private:
    template <typename... Values>
    void add(fmt::format_string<Values...> format, Values&&... values) {
        if (!text_.empty()) text_.push_back(',');
        text_.push_back('\n');
        fmt::format_to(std::back_inserter(text_), format, std::forward<Values>(values)...);
    }

    void add_step(const Step& step) {
        add(R"({{"ph":"X","pid":1,"tid":1,"cat":"step","name":"step","ts":{:.3f},"dur":{:.3f},)"
            R"("args":{{"plan":{},"sequences":{},"tokens":{}}}}})",
            step.began_s * kMicroseconds, step.length_s * kMicroseconds, step.plan_number,
            step.num_sequences, step.num_tokens);
        add(R"({{"ph":"C","pid":1,"name":"sequences","ts":{:.3f},"args":{{"running":{},"waiting":{}}}}})",
            (step.began_s + step.length_s) * kMicroseconds, step.num_running, step.num_waiting);
    }

    void add_async(const char* phase, RequestId request, const std::string& name, double at_s,
                   const std::string& arguments = "{}") {
        add(R"({{"ph":"{}","pid":1,"tid":2,"cat":"request","id":{},"name":"{}","ts":{:.3f},"args":{}}})",
            phase, request, name, at_s * kMicroseconds, arguments);
    }

    // Nothing is later than the end of the last step but what ends requests.
    double trace_end_s() const {
        double end_s = 0.0;
        for (const Step& step : steps_) end_s = std::max(end_s, step.began_s + step.length_s);
        for (const RequestEvent& event : events_) end_s = std::max(end_s, event.at_s);
        return end_s;
    }

    static const char* outcome(Kind kind) {
        switch (kind) {
            case Kind::stopped:
                return finish_reason_name(FinishReason::stop);
            case Kind::ran_out:
                return finish_reason_name(FinishReason::length);
            case Kind::aborted:
                return finish_reason_name(FinishReason::cancelled);
            case Kind::failed:
                return finish_reason_name(FinishReason::error);
            default:
                return nullptr;
        }
    }

    // What begins with the event when `before` was in flight; null: nothing new.
    static const char* phase_after(Kind kind, const char* before) {
        const std::string_view was = before == nullptr ? "" : before;
        switch (kind) {
            case Kind::queued:
                return was.empty() ? "queued" : nullptr;
            case Kind::try_admit:
                if (was == "preempted") return "resumed";
                return was.empty() || was == "queued" ? "prefill" : nullptr;
            case Kind::first_token:
                return was == "decode" ? nullptr : "decode";
            case Kind::preempted:
                return was == "preempted" ? nullptr : "preempted";
            default:
                return nullptr;
        }
    }

    // Steps tell of a request as soon as they ran, its outputs later and with earlier times.
    void add_request(RequestId request, std::vector<RequestEvent>& events) {
        std::ranges::stable_sort(events, [](const RequestEvent& one, const RequestEvent& other) {
            return std::pair(one.at_s, one.kind) < std::pair(other.at_s, other.kind);
        });
        const std::string name = fmt::format("request {}", request);
        const auto end = std::ranges::find_if(
            events, [](const RequestEvent& event) { return outcome(event.kind) != nullptr; });
        const char* ended = end == events.end() ? nullptr : outcome(end->kind);
        const double end_s = end == events.end() ? trace_end_s_ : end->at_s;
        events.erase(end, events.end());
        if (events.empty()) return;  // nothing but its end is known
        add_async("b", request, name, events.front().at_s);
        const char* phase = nullptr;
        for (const RequestEvent& event : events) {
            const char* next = phase_after(event.kind, phase);
            if (next == nullptr) continue;
            if (phase != nullptr) add_async("e", request, phase, event.at_s);
            add_async("b", request, next, event.at_s);
            phase = next;
        }
        if (phase != nullptr) add_async("e", request, phase, end_s);
        add_async("e", request, name, end_s,
                  fmt::format(R"({{"outcome":"{}"}})", ended != nullptr ? ended : "under way"));
    }

    std::vector<RequestEvent> events_;
    std::vector<Step> steps_;
    double trace_end_s_ = trace_end_s();
    std::string text_;
};

std::string RequestTimeline::chrome_trace() const {
    std::vector<RequestEvent> events;
    std::vector<Step> steps;
    {
        const std::lock_guard lock(mutex_);
        events = requests_.in_order();
        steps = steps_.in_order();
    }
    return Writer(engine_name_, std::move(events), std::move(steps)).document();
}

}  // namespace nvllm::server
