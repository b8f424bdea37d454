// A child process: spawned with exactly the descriptors it is given, killed, and its end described
// in words.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "lib/base/owned_descriptor.h"

namespace nvllm {

// A descriptor of this process under the number the child knows it by.
struct InheritedDescriptor {
    int ours = -1;
    int theirs = -1;
};

// Signals that the child is to be deaf to, from its first moment on.
enum class ChildSignals {
    as_usual,
    // SIGINT, SIGTERM, SIGHUP, SIGQUIT and SIGTSTP reach whole groups of processes but are meant
    // for the parent, with which a helper ends.
    left_to_parent,
};

class ChildProcess {
  public:
    // Spawns the program arguments[0], a path. The child has its parent's stderr, what `inherited`
    // lists, /dev/null for those of 0 and 1 that are not listed, and no other descriptor; and its
    // parent's environment with `variables`, "NAME=value", instead of those of these names.
    // Throws unavailable when there is no such program or the system refuses.
    ChildProcess(const std::vector<std::string>& arguments,
                 std::span<const InheritedDescriptor> inherited,
                 ChildSignals signals = ChildSignals::as_usual,
                 const std::vector<std::string>& variables = {});
    // Kills it when it has not ended, and waits for its end.
    ~ChildProcess();
    ChildProcess(const ChildProcess&) = delete;
    ChildProcess& operator=(const ChildProcess&) = delete;

    pid_t id() const { return id_; }
    // SIGKILL; nothing when it was waited for already. Any thread.
    void kill() noexcept;
    // Readable when it has ended; empty where the system has none of these.
    OwnedDescriptor readable_at_end() const;
    // Whether it has ended within that time.
    bool ends_within(std::chrono::milliseconds time);
    // Blocks until it has ended; its status as of waitpid(). Safe to repeat, on one thread.
    int wait();

  private:
    const pid_t id_;
    std::mutex mutex_;
    bool reaped_ = false;
    int status_ = 0;
};

// The file that a shell would run for a name; the name itself where there is none.
std::string program_path(const std::string& name);

// From here on this process is killed when the thread that started it ends, or has ended already.
// `parent`: the process of that thread.
void end_with_parent(pid_t parent);

// "ended with exit code 70", "killed by signal 9 (Killed)".
std::string describe_exit(int status);

}  // namespace nvllm
