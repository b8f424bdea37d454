// nvllm-inspect watch: a running engine on a full screen, or as JSON lines.
#include <fmt/format.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include <csignal>

#include "kernels/error.h"
#include "lib/base/clock.h"
#include "lib/cli/main_guard.h"
#include "lib/view/snapshot_source.h"
#include "lib/view/watch_screen.h"
#include "tools/inspect/commands.h"

namespace nvllm::inspect {
namespace {

constexpr const char* kExamples =
    "  nvllm-serve --inspect-socket \"$XDG_RUNTIME_DIR/nvllm.sock\" ...   (or nvllm-run)\n"
    "  nvllm-inspect watch \"$XDG_RUNTIME_DIR/nvllm.sock\"\n"
    "\n"
    "On a terminal, q or Ctrl-C leaves. Otherwise each snapshot is a line of JSON,\n"
    "schema nvllm.snapshot/1 without its prefix tree. Ends with the engine.\n";

struct WatchOptions {
    std::optional<std::filesystem::path> socket;
    double interval = 1.0;
    int32_t count = 0;
    bool json = false;
};

OptionList<WatchOptions> watch_options() {
    OptionList<WatchOptions> list("inspect");
    list.add("socket", &WatchOptions::socket, "The --inspect-socket of the engine.",
             value_name("PATH"), positional());
    list.add("interval", &WatchOptions::interval, "Seconds between two looks.", range(0.1, 3600.0));
    list.add("count", &WatchOptions::count, "Leave after so many looks; 0: never.",
             range(0, INT32_MAX));
    list.add("json", &WatchOptions::json, "JSON lines on a terminal too.");
    return list;
}

volatile std::sig_atomic_t resized = 0;

// The terminal as a screen that is drawn on; as it was before when this goes.
class Screen {
  public:
    Screen() {
        ::tcgetattr(STDIN_FILENO, &before_);
        termios raw = before_;
        raw.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO);
        raw.c_cc[VSUSP] = _POSIX_VDISABLE;  // a shell could not use the screen as it is now
        ::tcsetattr(STDIN_FILENO, TCSANOW, &raw);
        struct sigaction action {};
        action.sa_handler = [](int) { resized = 1; };  // no SA_RESTART: poll() is to return
        ::sigaction(SIGWINCH, &action, nullptr);
        write_output("\x1b[?1049h\x1b[?25l");
    }
    ~Screen() {
        constexpr std::string_view kLeave = "\x1b[?25h\x1b[?1049l";
        (void)!::write(STDOUT_FILENO, kLeave.data(), kLeave.size());
        ::tcsetattr(STDIN_FILENO, TCSANOW, &before_);
    }
    Screen(const Screen&) = delete;
    Screen& operator=(const Screen&) = delete;

    void draw(const Snapshot& now, const Snapshot* before) {
        winsize size{};
        const bool known = ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
        const int columns = known ? size.ws_col : 80;
        std::string text = "\x1b[H";
        const auto lines = view::watch_lines(now, before, columns, known ? size.ws_row : 24);
        for (size_t i = 0; i < lines.size(); ++i) {
            text += (i > 0 ? "\r\n" : "") + lines[i] + "\x1b[K";
        }
        write_output(text + "\x1b[J");
    }

  private:
    termios before_{};
};

// Whether the user wants to go on after waiting; returns early for a new size.
bool wait_for_user(double seconds) {
    const MonotonicClock clock;
    const double end = clock.now_s() + seconds;
    while (!stop_signal() && resized == 0) {
        const double left = end - clock.now_s();
        if (left <= 0.0) break;
        pollfd polled{STDIN_FILENO, POLLIN, 0};
        if (::poll(&polled, 1, static_cast<int>(left * 1000.0) + 1) <= 0) continue;
        char key = 0;
        if (::read(STDIN_FILENO, &key, 1) <= 0 || key == 'q' || key == 'Q' || key == 3)
            return false;
    }
    return !stop_signal();
}

int watch_screen(view::LiveSnapshots& engine, const WatchOptions& flags) {
    Screen screen;
    std::optional<Snapshot> latest;
    std::optional<Snapshot> before;
    for (int32_t looks = 0;;) {
        // A new size is drawn with what is known.
        if (std::exchange(resized, 0) == 0 || !latest) {
            before = std::move(latest);
            latest = engine.next(SnapshotDetail::without_tree);
            ++looks;
        }
        screen.draw(*latest, before ? &*before : nullptr);
        if (flags.count > 0 && looks >= flags.count) return 0;
        if (!wait_for_user(flags.interval)) return 0;
    }
}

int watch_lines(view::LiveSnapshots& engine, const WatchOptions& flags) {
    for (int32_t looks = 1; !stop_signal(); ++looks) {
        write_output(engine.next_line(SnapshotDetail::without_tree) + "\n");
        if (flags.count > 0 && looks >= flags.count) return 0;
        ::usleep(static_cast<useconds_t>(flags.interval * 1e6));
    }
    return exit_code_for_signal(*stop_signal());
}

int inspect_watch(const Invocation& invocation) {
    WatchOptions flags;
    const auto list = watch_options();
    OptionSet options;
    options.add(list, flags);
    if (answered(invocation, options)) return 0;
    if (!flags.socket) throw Error(ErrorKind::usage, "which engine? name its --inspect-socket");
    watch_stop_signals();
    view::LiveSnapshots engine(*flags.socket);
    const bool screen = !flags.json && ::isatty(STDOUT_FILENO) != 0 && ::isatty(STDIN_FILENO) != 0;
    bool seen = false;
    try {
        // The first answer tells an engine that ended later from one that never spoke.
        engine.next(SnapshotDetail::without_tree);
        seen = true;
        return screen ? watch_screen(engine, flags) : watch_lines(engine, flags);
    } catch (const Error& error) {
        if (!seen || error.kind() != ErrorKind::unavailable) throw;
        fmt::print(stderr, "nvllm-inspect: {}\n", error.what());
        return 0;
    }
}

}  // namespace

Command watch_command() {
    return {"watch", "Watches a running engine, on a full screen or as JSON lines.", inspect_watch,
            kExamples};
}

}  // namespace nvllm::inspect
