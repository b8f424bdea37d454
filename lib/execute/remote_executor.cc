// Asks the ranks, and finds out how they ended.
#include "lib/execute/remote_executor.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <new>
#include <utility>

#include "lib/base/log.h"
#include "lib/base/units.h"
#include "lib/execute/result_checks.h"

namespace nvllm {
namespace {

constexpr const char* kClosed = "closed the connection";
constexpr const char* kOtherAnswer = "answered something else than it was asked";

bool is_readable(int descriptor) {
    pollfd one{descriptor, POLLIN, 0};
    return ::poll(&one, 1, 0) > 0;
}

bool has_ended(int descriptor) {
    pollfd one{descriptor, POLLRDHUP, 0};
    return ::poll(&one, 1, 0) > 0;
}

// From now on the poll is readable only when this descriptor's other end is closed.
void watch_for_end(const OwnedDescriptor& poll, int descriptor) {
    epoll_event event{EPOLLRDHUP, {}};
    ::epoll_ctl(poll.get(), EPOLL_CTL_MOD, descriptor, &event);
}

// Waits until one of these ranks has sent something, or closed.
template <typename Rank>
Rank& await_any(const std::vector<Rank*>& ranks) {
    std::vector<pollfd> polled;
    for (const Rank* rank : ranks) polled.push_back({rank->channel.descriptor(), POLLIN, 0});
    while (true) {
        ::poll(polled.data(), polled.size(), -1);
        for (size_t i = 0; i < polled.size(); ++i) {
            if (polled[i].revents != 0) return *ranks[i];
        }
    }
}

void log_rank(size_t rank, size_t ranks, const WorkerReady& ready) {
    log_debug(fmt::format(
        "rank {} of {}: weights {} ({} bytes, of files {}) in {:.0f} ms, kv cache {} ({} bytes)",
        rank, ranks, describe_bytes(ready.weight_bytes), ready.weight_bytes, ready.read_bytes,
        ready.weights_ms, describe_bytes(ready.kv_bytes), ready.kv_bytes));
}

}  // namespace

RemoteExecutor::RemoteExecutor(const WorkerSetup& setup, std::unique_ptr<RankLauncher> launcher)
    : setup_(setup), launcher_(std::move(launcher)) {
    // Another process opens the files by itself, wherever its parent has gone meanwhile.
    setup_.model.checkpoint = nullptr;
    setup_.model.directory = std::filesystem::absolute(setup_.model.directory);
}

RemoteExecutor::RemoteExecutor(const WorkerSetup& setup, const std::filesystem::path& program)
    : RemoteExecutor(setup, child_process_launcher(program, setup.ranks.sizes.num_ranks())) {}

RemoteExecutor::~RemoteExecutor() { bury(false, ""); }

void RemoteExecutor::start() {
    bury(false, "");
    launcher_->start();
    if (!setup_.ranks.is_alone()) setup_.ranks.group_ids = launcher_->group_ids(setup_.ranks);
    is_started_ = true;
    connect(false);
}

bool RemoteExecutor::connect(bool wait) {
    if (!ranks_.empty()) return true;
    if (!is_started_) throw WorkerDied("there is none");
    std::optional<std::vector<OwnedDescriptor>> sockets = launcher_->connected(wait);
    if (!sockets) return false;
    if (!setup_.ranks.is_alone()) poll_ = OwnedDescriptor(::epoll_create1(EPOLL_CLOEXEC));
    for (OwnedDescriptor& socket : *sockets) {
        if (poll_) {
            epoll_event event{EPOLLIN, {}};
            ::epoll_ctl(poll_.get(), EPOLL_CTL_ADD, socket.get(), &event);
        }
        ranks_.push_back(std::make_unique<Rank>(std::move(socket)));
    }
    for (size_t rank = 0; rank < ranks_.size(); ++rank) {
        send(*ranks_[rank], setup_.of_rank(static_cast<int32_t>(rank)));
    }
    return true;
}

std::optional<WorkerReady> RemoteExecutor::ready(bool wait) {
    if (!connect(wait)) return std::nullopt;
    std::vector<Rank*> starting;
    for (const auto& rank : ranks_) {
        if (!rank->ready) starting.push_back(rank.get());
    }
    while (!starting.empty()) {
        const auto has_news = [](const Rank* rank) {
            return is_readable(rank->channel.descriptor());
        };
        if (!wait && std::ranges::none_of(starting, has_news)) return std::nullopt;
        Rank& rank = await_any(starting);
        receive_ready(rank);
        std::erase(starting, &rank);
    }
    // Answers to steps of others are read when those end.
    if (setup_.ranks.shares_experts()) {
        for (const auto& rank : ranks_) watch_for_end(poll_, rank->channel.descriptor());
    }
    WorkerReady all;
    for (size_t rank = 0; rank < ranks_.size(); ++rank) {
        const WorkerReady& ready = *ranks_[rank]->ready;
        if (!setup_.ranks.is_alone()) log_rank(rank, ranks_.size(), ready);
        all.weights_ms = std::max(all.weights_ms, ready.weights_ms);
        all.worker_ms = std::max(all.worker_ms, ready.worker_ms);
        all.weight_bytes = std::max(all.weight_bytes, ready.weight_bytes);
        all.kv_bytes = std::max(all.kv_bytes, ready.kv_bytes);
    }
    return all;
}

void RemoteExecutor::receive_ready(Rank& rank) {
    const MessageKind kind = receive(rank);
    if (kind == MessageKind::ready) {
        rank.ready = read_payload<WorkerReady>(rank.channel.payload());
        return;
    }
    if (kind != MessageKind::fault) throw_lost(kOtherAnswer);
    const auto fault = read_payload<WorkerFault>(rank.channel.payload());
    bury(false, "");
    throw Error(fault.kind, fault.message);
}

std::optional<int> RemoteExecutor::readable_descriptor() const {
    if (ranks_.empty()) return is_started_ ? launcher_->readable_descriptor() : std::nullopt;
    return setup_.ranks.is_alone() ? ranks_.front()->channel.descriptor() : poll_.get();
}

void RemoteExecutor::begin_step_of_others() {
    send_all(StepOfOthers{});
    awaits_others_ = true;
}

void RemoteExecutor::finish_step_of_others() {
    if (!std::exchange(awaits_others_, false)) return;
    for (const auto& rank : ranks_) {
        if (receive(*rank) != MessageKind::result) throw_lost(kOtherAnswer);
    }
}

std::optional<std::string> RemoteExecutor::check_alive() {
    for (const auto& rank : ranks_) {
        if (setup_.ranks.shares_experts()) {
            if (has_ended(rank->channel.descriptor())) return bury(true, kClosed).how;
            continue;
        }
        if (!is_readable(rank->channel.descriptor())) continue;
        uint8_t byte = 0;
        const ssize_t count = ::recv(rank->channel.descriptor(), &byte, 1, MSG_PEEK | MSG_DONTWAIT);
        return count > 0 ? bury(false, "spoke without being asked").how : bury(true, kClosed).how;
    }
    return std::nullopt;
}

int RemoteExecutor::max_in_flight() const {
    if (setup_.ranks.shares_experts()) return 1;
    if (!setup_.ranks.is_alone())
        return setup_.worker.num_draft_states > 0 ? 1 : setup_.ranks.sizes.pipeline;
    return setup_.model.device.module_path.empty() ? 1 : kDevicePlansInFlight;
}

StepResult RemoteExecutor::execute(const BatchPlan& plan) {
    begin(plan);
    return finish();
}

void RemoteExecutor::begin(const BatchPlan& plan) {
    send_all(plan);
    sent_plans_.push_back(plan);
}

StepResult RemoteExecutor::finish() {
    NVLLM_CHECK(!sent_plans_.empty(), "no plan was begun");
    const BatchPlan plan = sent_plans_.front();
    await_answers();
    sent_plans_.pop_front();
    StepResult result = std::move(output_rank().answers.front());
    result.num_ranks = static_cast<int32_t>(ranks_.size());
    for (const auto& rank : ranks_) {
        if (rank.get() != &output_rank()) {
            const StepResult& other = rank->answers.front();
            result.busy_ms += other.busy_ms;
            result.swapped_bytes += other.swapped_bytes;
            result.swap_ms = std::max(result.swap_ms, other.swap_ms);
            result.rank_bytes += other.rank_bytes;
            result.dropped_experts += other.dropped_experts;
            add_expert_load(other.expert_load, result.expert_load);
        }
        rank->answers.pop_front();
    }
    try {
        check_step_result(plan, result, setup_.vocab_size);
    } catch (const Error& error) {
        throw_lost(error.what());
    }
    for (const auto& rank : ranks_) {
        if (rank.get() != &output_rank()) send(*rank, result);
    }
    return result;
}

void RemoteExecutor::await_answers() {
    while (true) {
        std::vector<Rank*> asked;
        for (const auto& rank : ranks_) {
            if (rank->answers.empty()) asked.push_back(rank.get());
        }
        if (asked.empty()) return;
        // One alone is read at once: that waits as well.
        receive_answer(setup_.ranks.is_alone() ? *asked.front() : await_any(asked),
                       sent_plans_.front());
    }
}

void RemoteExecutor::receive_answer(Rank& rank, const BatchPlan& plan) {
    const MessageKind kind = receive(rank);
    if (kind == MessageKind::result) {
        try {
            rank.answers.push_back(read_payload<StepResult>(rank.channel.payload()));
        } catch (const Error& error) {
            throw_lost(error.what());
        }
        if (rank.answers.back().plan_number != plan.number) throw_lost(kOtherAnswer);
        return;
    }
    if (kind != MessageKind::fault) throw_lost(kOtherAnswer);
    const auto fault = read_payload<WorkerFault>(rank.channel.payload());
    // The other ranks wait for this one.
    if (!setup_.ranks.is_alone()) throw_lost(fault.message);
    sent_plans_.pop_front();
    if (fault.out_of_memory) throw std::bad_alloc();
    throw Error(fault.kind, fault.message);
}

// Replies to plans that were sent come before it and are dropped.
void RemoteExecutor::forget() {
    for (; !sent_plans_.empty(); sent_plans_.pop_front()) {
        for (const auto& rank : ranks_) {
            if (!rank->answers.empty()) {
                rank->answers.pop_front();
                continue;
            }
            const MessageKind kind = receive(*rank);
            if (kind != MessageKind::result && kind != MessageKind::fault) {
                throw_lost(kOtherAnswer);
            }
        }
    }
    send_all(ForgetSequences{});
}

std::optional<int> RemoteExecutor::process_id() const { return launcher_->process_id(); }

bool RemoteExecutor::kill(const std::string& cause) { return launcher_->kill(cause); }

template <typename Message>
void RemoteExecutor::send(Rank& rank, const Message& message) {
    try {
        rank.channel.send(message);
    } catch (const Error& error) {
        throw_lost(error.what());
    }
}

template <typename Message>
void RemoteExecutor::send_all(const Message& message) {
    if (ranks_.empty()) throw WorkerDied("there is none");
    for (const auto& rank : ranks_) send(*rank, message);
}

MessageKind RemoteExecutor::receive(Rank& rank) {
    try {
        const std::optional<FrameHead> head = rank.channel.receive();
        if (head) return head->kind;
    } catch (const Error& error) {
        throw_lost(error.what());
    }
    throw_lost(kClosed, true);
}

RanksEnd RemoteExecutor::bury(bool closed_first, const std::string& what_was_seen) {
    ranks_.clear();
    poll_.reset();
    sent_plans_.clear();
    awaits_others_ = false;
    is_started_ = false;
    RanksEnd end = launcher_->bury(closed_first, what_was_seen);
    if (end.how.empty()) end.how = what_was_seen;
    return end;
}

void RemoteExecutor::throw_lost(const std::string& what_was_seen, bool closed_first) {
    const RanksEnd end = bury(closed_first, what_was_seen);
    throw WorkerDied(end.how, end.killed_by_others);
}

}  // namespace nvllm
