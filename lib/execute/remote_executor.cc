// Asks the child, and finds out how it ended.
#include "lib/execute/remote_executor.h"

#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <new>

#include "lib/execute/result_checks.h"
#include "lib/execute/worker_service.h"

namespace nvllm {
namespace {

constexpr const char* kClosed = "closed the connection";

bool is_readable(int descriptor) {
    pollfd one{descriptor, POLLIN, 0};
    return ::poll(&one, 1, 0) > 0;
}

}  // namespace

RemoteExecutor::RemoteExecutor(const WorkerSetup& setup, const std::filesystem::path& program)
    : setup_(setup), program_(program) {
    // Another process opens the files by itself, wherever its parent has gone meanwhile.
    setup_.model.checkpoint = nullptr;
    setup_.model.directory = std::filesystem::absolute(setup_.model.directory);
}

void RemoteExecutor::start() {
    bury("");
    auto [ours, theirs] = make_socket_pair();
    const InheritedDescriptor inherited{theirs.get(), kWorkerSocket};
    auto process = std::make_unique<ChildProcess>(
        std::vector<std::string>{program_.string(), std::to_string(::getpid())},
        std::span(&inherited, 1), ChildSignals::left_to_parent);
    {
        const std::lock_guard lock(mutex_);
        process_ = std::move(process);
        kill_cause_.clear();
    }
    theirs.reset();
    channel_ = std::make_unique<FrameChannel>(std::move(ours));
    send(setup_);
}

std::optional<WorkerReady> RemoteExecutor::ready(bool wait) {
    if (channel_ == nullptr) throw WorkerDied("there is none");
    if (!wait && !is_readable(channel_->descriptor())) return std::nullopt;
    const MessageKind kind = receive();
    if (kind == MessageKind::ready) return read_payload<WorkerReady>(channel_->payload());
    if (kind != MessageKind::fault) throw_lost("answered something else than it was asked");
    const auto fault = read_payload<WorkerFault>(channel_->payload());
    bury("");
    throw Error(fault.kind, fault.message);
}

std::optional<int> RemoteExecutor::readable_descriptor() const {
    if (channel_ == nullptr) return std::nullopt;
    return channel_->descriptor();
}

std::optional<std::string> RemoteExecutor::check_alive() {
    if (channel_ == nullptr || !is_readable(channel_->descriptor())) return std::nullopt;
    uint8_t byte = 0;
    const ssize_t count = ::recv(channel_->descriptor(), &byte, 1, MSG_PEEK | MSG_DONTWAIT);
    return bury(count > 0 ? "spoke without being asked" : kClosed);
}

StepResult RemoteExecutor::execute(const BatchPlan& plan) {
    begin(plan);
    return finish();
}

void RemoteExecutor::begin(const BatchPlan& plan) {
    send(plan);
    sent_plans_.push_back(plan);
}

StepResult RemoteExecutor::finish() {
    NVLLM_CHECK(!sent_plans_.empty(), "no plan was begun");
    const MessageKind kind = receive();
    const BatchPlan plan = std::move(sent_plans_.front());
    sent_plans_.pop_front();
    try {
        if (kind == MessageKind::result) {
            auto result = read_payload<StepResult>(channel_->payload());
            check_step_result(plan, result, setup_.vocab_size);
            return result;
        }
        if (kind != MessageKind::fault) throw_lost("answered something else than it was asked");
    } catch (const Error& error) {
        throw_lost(error.what());
    }
    const auto fault = read_payload<WorkerFault>(channel_->payload());
    if (fault.out_of_memory) throw std::bad_alloc();
    throw Error(fault.kind, fault.message);
}

// Replies to plans that were sent come before it and are dropped.
void RemoteExecutor::forget() {
    for (; !sent_plans_.empty(); sent_plans_.pop_front()) {
        const MessageKind kind = receive();
        if (kind != MessageKind::result && kind != MessageKind::fault) {
            throw_lost("answered something else than it was asked");
        }
    }
    send(ForgetSequences{});
}

std::optional<int> RemoteExecutor::process_id() const {
    const std::lock_guard lock(mutex_);
    if (process_ == nullptr) return std::nullopt;
    return process_->id();
}

bool RemoteExecutor::kill(const std::string& cause) {
    const std::lock_guard lock(mutex_);
    if (process_ == nullptr) return false;
    if (kill_cause_.empty()) kill_cause_ = cause;
    process_->kill();
    return true;
}

template <typename Message>
void RemoteExecutor::send(const Message& message) {
    if (channel_ == nullptr) throw WorkerDied("there is none");
    try {
        channel_->send(message);
    } catch (const Error& error) {
        throw_lost(error.what());
    }
}

MessageKind RemoteExecutor::receive() {
    try {
        const std::optional<FrameHead> head = channel_->receive();
        if (head) return head->kind;
    } catch (const Error& error) {
        throw_lost(error.what());
    }
    throw_lost(kClosed);
}

// A worker that closed its socket is ending already and keeps the exit it has: the kill is for one
// that misbehaves in another way.
std::string RemoteExecutor::bury(const std::string& what_was_seen) {
    channel_.reset();
    sent_plans_.clear();
    std::unique_ptr<ChildProcess> process;
    std::string cause;
    {
        const std::lock_guard lock(mutex_);
        process = std::move(process_);
        cause = kill_cause_;
    }
    if (process == nullptr) return what_was_seen;
    const bool ended_by_itself = what_was_seen == kClosed;
    process->kill();
    const int status = process->wait();
    const std::string end = describe_exit(status);
    was_killed_by_others_ =
        ended_by_itself && cause.empty() && WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
    return fmt::format("process {}: {}", process->id(),
                       !cause.empty() ? cause : fmt::format("{} ({})", end, what_was_seen));
}

void RemoteExecutor::throw_lost(const std::string& what_was_seen) {
    const std::string how = bury(what_was_seen);
    throw WorkerDied(how, was_killed_by_others_);
}

}  // namespace nvllm
