// Starts lines, takes their responses, and publishes the results.
#include "lib/server/batches/batch_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <ctime>

#include "lib/base/json.h"

namespace nvllm::server {
namespace {

// How long a line waits that the server had no room for, unless it says so itself.
constexpr std::chrono::milliseconds kPatience{200};
// How often a batch without news looks at its deadline.
constexpr std::chrono::milliseconds kLongestWait{1000};

// The server is loaded, or not ready: the same request may succeed later.
bool is_to_be_repeated(const HttpResponse& response) {
    return response.status == 429 || response.status == 503;
}

std::chrono::milliseconds patience_of(const HttpResponse& response) {
    for (const HttpHeader& header : response.headers) {
        if (!equal_ignoring_case(header.name, "Retry-After")) continue;
        int seconds = 0;
        const char* end = header.value.data() + header.value.size();
        std::from_chars(header.value.data(), end, seconds);
        return std::chrono::seconds(std::clamp(seconds, 0, 60));
    }
    return kPatience;
}

// The body of a response as JSON: what a line of JSON can hold.
std::string body_of(const HttpResponse& response) {
    return response.body.empty() ? "null" : response.body;
}

}  // namespace

void BatchEvents::tell() {
    {
        const std::lock_guard lock(mutex);
        has_news = true;
    }
    has_changed.notify_all();
}

BatchRun::BatchRun(const BatchParts& parts, std::shared_ptr<BatchEvents> events, OwnedBatch owned)
    : parts_(parts),
      events_(std::move(events)),
      number_(++events_->num_runs),
      owner_(std::move(owned.owner)),
      batch_(std::move(owned.batch)) {}

void BatchRun::run() {
    if (!begin()) return;
    open(output_, kOutput);
    open(errors_, kErrors);
    for (size_t line = 0; line < lines_.size(); ++line) {
        const std::string& id = lines_[line].custom_id;
        if (output_->known().contains(id) || errors_->known().contains(id)) continue;
        waiting_.push_back({line, {}});
    }
    count();
    compute();
}

// Reads the input; false when the batch has failed.
bool BatchRun::begin() {
    const auto content = parts_.files.content(owner_, batch_.input_file_id);
    BatchInput input;
    if (content) {
        input = read_batch_input(*content, batch_.endpoint);
    } else {
        input.errors.push_back({"file_not_found",
                                fmt::format("the file {} is gone", batch_.input_file_id),
                                "input_file_id", std::nullopt});
    }
    if (!input.errors.empty()) {
        parts_.batches.change(batch_.id, [&](Batch& batch) {
            batch.status = "failed";
            batch.failed_at = std::time(nullptr);
            batch.errors.emplace().data = std::move(input.errors);
        });
        return false;
    }
    lines_ = std::move(input.lines);
    if (batch_.status != "validating") return true;
    batch_ = parts_.batches.change(batch_.id, [&](Batch& batch) {
        batch.request_counts.total = static_cast<int64_t>(lines_.size());
        if (batch.status != "validating") return;  // cancelled meanwhile
        batch.status = "in_progress";
        batch.in_progress_at = std::time(nullptr);
    });
    return true;
}

void BatchRun::compute() {
    Outcome end = outcome();
    for (; end == Outcome::going_on; end = outcome()) {
        start_lines();
        wait();
        std::deque<BatchEvents::Answer> answers;
        {
            const std::lock_guard lock(events_->mutex);
            answers.swap(events_->answers);
        }
        for (auto& answer : answers) take(std::move(answer));
        if (!answers.empty()) count();
    }
    if (end == Outcome::server_ends) return give_up_all(DisconnectReason::shut_down);
    give_up_all(DisconnectReason::closed);
    finish(end);
}

BatchRun::Outcome BatchRun::outcome() {
    {
        const std::lock_guard lock(events_->mutex);
        if (events_->is_ending) return Outcome::server_ends;
    }
    if (waiting_.empty() && under_way_.empty()) return Outcome::all_done;
    const auto now = parts_.batches.find(owner_, batch_.id);
    if (now && now->status == "cancelling") return Outcome::cancelled;
    if (batch_.expires_at && std::time(nullptr) >= *batch_.expires_at) return Outcome::expired;
    return Outcome::going_on;
}

void BatchRun::start_lines() {
    const auto now = Clock::now();
    size_t left = waiting_.size();
    while (left-- > 0 && under_way_.size() < parts_.concurrency) {
        const Waiting next = waiting_.front();
        waiting_.pop_front();
        if (next.not_before > now) {
            waiting_.push_back(next);
        } else if (!start_line(next.line)) {
            waiting_.push_back({next.line, now + kPatience});
            return;
        }
    }
}

bool BatchRun::start_line(size_t line) {
    HttpRequest request;
    request.method = "POST";
    request.target = request.path = batch_.endpoint;
    request.headers = {{"Content-Type", "application/json"}};
    request.body = lines_[line].body;
    auto transaction = std::make_shared<BatchTransaction>(
        std::move(request), [events = events_, run = number_, line](HttpResponse response) {
            {
                const std::lock_guard lock(events->mutex);
                events->answers.push_back({run, line, std::move(response)});
            }
            events->tell();
        });
    transaction->request_id = fmt::format("{}-{}", batch_.id, line + 1);
    transaction->acting_key = owner_;
    under_way_[line] = transaction;
    if (parts_.start(transaction)) return true;
    under_way_.erase(line);
    return false;
}

void BatchRun::take(BatchEvents::Answer answer) {
    const auto found = under_way_.find(answer.line);
    if (answer.run != number_ || found == under_way_.end()) return;
    const std::string request_id = found->second->request_id;
    under_way_.erase(found);
    const HttpResponse& response = answer.response;
    if (is_to_be_repeated(response)) {
        waiting_.push_back({answer.line, Clock::now() + patience_of(response)});
        return;
    }
    const std::string& id = lines_[answer.line].custom_id;
    ResultFile& results = response.status < 400 ? *output_ : *errors_;
    results.append(id, response_line(id, response.status, request_id, body_of(response)));
}

void BatchRun::wait() {
    const bool has_room = under_way_.size() < parts_.concurrency;
    const bool looks_soon = has_room && !waiting_.empty();
    std::unique_lock lock(events_->mutex);
    events_->has_changed.wait_for(lock, looks_soon ? kPatience : kLongestWait, [&] {
        return events_->has_news || events_->is_ending || !events_->answers.empty();
    });
    events_->has_news = false;
}

void BatchRun::give_up_all(DisconnectReason why) {
    for (const auto& [line, transaction] : under_way_) transaction->give_up(why);
    under_way_.clear();
    const std::lock_guard lock(events_->mutex);
    events_->answers.clear();
}

// What was not computed is named in the file of errors.
void BatchRun::write_unanswered(Outcome why) {
    if (why == Outcome::all_done) return;
    const bool is_expired = why == Outcome::expired;
    for (const BatchLine& line : lines_) {
        if (output_->known().contains(line.custom_id)) continue;
        if (errors_->known().contains(line.custom_id)) continue;
        errors_->append(
            line.custom_id,
            unanswered_line(line.custom_id, is_expired ? "batch_expired" : "batch_cancelled",
                            is_expired ? "the batch's time was over before"
                                       : "the batch was cancelled before"));
    }
}

void BatchRun::count() {
    batch_.request_counts = {.total = static_cast<int64_t>(lines_.size()),
                             .completed = static_cast<int64_t>(output_->known().size()),
                             .failed = static_cast<int64_t>(errors_->known().size())};
    parts_.batches.set_counts(batch_.id, batch_.request_counts);
}

void BatchRun::finish(Outcome why) {
    write_unanswered(why);
    count();
    if (why == Outcome::all_done) {
        parts_.batches.change(batch_.id, [&](Batch& batch) {
            if (batch.status == "cancelling") return;
            batch.status = "finalizing";
            batch.finalizing_at = std::time(nullptr);
        });
    }
    const auto output_id = publish(*output_, kOutput);
    const auto error_id = publish(*errors_, kErrors);
    parts_.batches.change(batch_.id, [&](Batch& batch) {
        batch.output_file_id = output_id;
        batch.error_file_id = error_id;
        const int64_t now = std::time(nullptr);
        if (why == Outcome::expired) {
            batch.status = "expired";
            batch.expired_at = now;
        } else if (why == Outcome::cancelled || batch.status == "cancelling") {
            batch.status = "cancelled";
            batch.cancelled_at = now;
        } else {
            batch.status = "completed";
            batch.completed_at = now;
        }
    });
}

// A process before this one may have ended while it published: then all lines are there.
void BatchRun::open(std::optional<ResultFile>& results, const ResultKind& kind) {
    const auto& id = batch_.*(kind.id);
    if (id) adopt(*id, kind);
    results.emplace(parts_.batches.results_path(batch_.id, kind.name));
    if (!id) return;
    if (auto content = parts_.files.content(owner_, *id)) {
        results->take_published(std::move(*content));
    }
}

// The id of the published file; none for one without a line. The id is written down before the file
// gets it, so that a process that ends in between leaves no file that is made twice.
std::optional<std::string> BatchRun::publish(ResultFile& results, const ResultKind& kind) {
    if (results.known().empty()) return std::nullopt;
    results.flush();
    const Batch named = parts_.batches.change(batch_.id, [&](Batch& batch) {
        if (!(batch.*(kind.id))) batch.*(kind.id) = new_id("file-");
    });
    adopt(*(named.*(kind.id)), kind);
    return named.*(kind.id);
}

void BatchRun::adopt(const std::string& id, const ResultKind& kind) {
    parts_.files.adopt(owner_, id, fmt::format("{}_{}.jsonl", batch_.id, kind.name), "batch_output",
                       parts_.batches.results_path(batch_.id, kind.name));
}

}  // namespace nvllm::server
