// posix_spawn and what surrounds it.
#include "lib/system/child_process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <thread>

#include "kernels/error.h"
#include "kernels/host/start_thread.h"

namespace nvllm {
namespace {

constexpr std::array kSignalsOfGroups = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGTSTP};

// The descriptors of the child, in the order in which they are made.
class FileActions {
  public:
    explicit FileActions(std::span<const InheritedDescriptor> inherited) {
        ::posix_spawn_file_actions_init(&actions_);
        int highest = STDERR_FILENO;
        for (const int standard : {STDIN_FILENO, STDOUT_FILENO}) {
            const auto is_listed = [&](const InheritedDescriptor& one) {
                return one.theirs == standard;
            };
            if (std::ranges::any_of(inherited, is_listed)) continue;
            ::posix_spawn_file_actions_addopen(&actions_, standard, "/dev/null", O_RDWR, 0);
        }
        for (const InheritedDescriptor& descriptor : inherited) {
            ::posix_spawn_file_actions_adddup2(&actions_, descriptor.ours, descriptor.theirs);
            highest = std::max(highest, descriptor.theirs);
        }
        ::posix_spawn_file_actions_addclosefrom_np(&actions_, highest + 1);
    }
    ~FileActions() { ::posix_spawn_file_actions_destroy(&actions_); }
    FileActions(const FileActions&) = delete;
    FileActions& operator=(const FileActions&) = delete;

    const posix_spawn_file_actions_t* get() const { return &actions_; }

  private:
    posix_spawn_file_actions_t actions_{};
};

// Signals as a fresh program expects them, but for those it is to be deaf to: blocked ones stay so
// after exec, so that there is no moment at which they would strike.
class SpawnAttributes {
  public:
    explicit SpawnAttributes(ChildSignals signals) {
        ::posix_spawnattr_init(&attributes_);
        sigset_t blocked;
        sigset_t defaults;
        ::sigemptyset(&blocked);
        ::sigemptyset(&defaults);
        ::sigaddset(&defaults, SIGPIPE);
        for (const int signal : kSignalsOfGroups) {
            ::sigaddset(&defaults, signal);
            if (signals == ChildSignals::left_to_parent) ::sigaddset(&blocked, signal);
        }
        ::posix_spawnattr_setsigmask(&attributes_, &blocked);
        ::posix_spawnattr_setsigdefault(&attributes_, &defaults);
        ::posix_spawnattr_setflags(&attributes_, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    }
    ~SpawnAttributes() { ::posix_spawnattr_destroy(&attributes_); }
    SpawnAttributes(const SpawnAttributes&) = delete;
    SpawnAttributes& operator=(const SpawnAttributes&) = delete;

    const posix_spawnattr_t* get() const { return &attributes_; }

  private:
    posix_spawnattr_t attributes_{};
};

// Those of this process but for the given ones, null-terminated. Refers to `variables`.
std::vector<char*> environment_with(const std::vector<std::string>& variables) {
    std::vector<char*> pointers;
    for (char** variable = environ; *variable != nullptr; ++variable) {
        const std::string_view text = *variable;
        const std::string_view name = text.substr(0, text.find('=') + 1);
        const auto is_given = [&](const std::string& given) { return given.starts_with(name); };
        if (std::ranges::none_of(variables, is_given)) pointers.push_back(*variable);
    }
    for (const std::string& variable : variables) {
        pointers.push_back(const_cast<char*>(variable.c_str()));
    }
    pointers.push_back(nullptr);
    return pointers;
}

pid_t spawn(const std::vector<std::string>& arguments,
            std::span<const InheritedDescriptor> inherited, ChildSignals signals,
            const std::vector<std::string>& variables) {
    const FileActions actions(inherited);
    const SpawnAttributes attributes(signals);
    std::vector<char*> pointers;
    for (const std::string& argument : arguments) {
        pointers.push_back(const_cast<char*>(argument.c_str()));
    }
    pointers.push_back(nullptr);
    pid_t id = 0;
    std::vector<char*> environment = environment_with(variables);
    const int error = ::posix_spawn(&id, pointers[0], actions.get(), attributes.get(),
                                    pointers.data(), environment.data());
    if (error == 0) return id;
    const std::string limits = error == EAGAIN ? "; limits: " + describe_thread_limits() : "";
    throw Error(ErrorKind::unavailable, fmt::format("{}: cannot be started: {}{}", arguments[0],
                                                    std::strerror(error), limits));
}

}  // namespace

ChildProcess::ChildProcess(const std::vector<std::string>& arguments,
                           std::span<const InheritedDescriptor> inherited, ChildSignals signals,
                           const std::vector<std::string>& variables)
    : id_(spawn(arguments, inherited, signals, variables)) {}

ChildProcess::~ChildProcess() {
    kill();
    wait();
}

// Under the lock, so that the number does not belong to another process yet.
void ChildProcess::kill() noexcept {
    const std::lock_guard lock(mutex_);
    if (!reaped_) ::kill(id_, SIGKILL);
}

OwnedDescriptor ChildProcess::readable_at_end() const {
    return OwnedDescriptor(static_cast<int>(::syscall(SYS_pidfd_open, id_, 0)));
}

bool ChildProcess::ends_within(std::chrono::milliseconds time) {
    constexpr std::chrono::milliseconds kPause{5};
    const auto until = std::chrono::steady_clock::now() + time;
    while (!reaped_) {
        siginfo_t info{};
        const int status =
            ::waitid(P_PID, static_cast<id_t>(id_), &info, WEXITED | WNOWAIT | WNOHANG);
        if (status == 0 && info.si_pid == id_) return true;
        if (std::chrono::steady_clock::now() > until) return false;
        std::this_thread::sleep_for(kPause);
    }
    return true;
}

int ChildProcess::wait() {
    if (reaped_) return status_;
    siginfo_t info{};
    while (::waitid(P_PID, static_cast<id_t>(id_), &info, WEXITED | WNOWAIT) < 0 &&
           errno == EINTR) {
    }
    const std::lock_guard lock(mutex_);
    ::waitpid(id_, &status_, 0);
    reaped_ = true;
    return status_;
}

std::string program_path(const std::string& name) {
    const char* const path = std::getenv("PATH");
    if (name.find('/') != std::string::npos || path == nullptr) return name;
    std::string_view rest = path;
    while (!rest.empty()) {
        const std::string_view folder = rest.substr(0, rest.find(':'));
        rest.remove_prefix(std::min(rest.size(), folder.size() + 1));
        const std::string file = fmt::format("{}/{}", folder, name);
        if (::access(file.c_str(), X_OK) == 0) return file;
    }
    return name;
}

void end_with_parent(pid_t parent) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    // It may have ended before that.
    if (::getppid() != parent) ::_exit(0);
}

std::string describe_exit(int status) {
    if (WIFSIGNALED(status)) {
        const int signal = WTERMSIG(status);
        return fmt::format("killed by signal {} ({})", signal, ::strsignal(signal));
    }
    return fmt::format("ended with exit code {}", WEXITSTATUS(status));
}

}  // namespace nvllm
