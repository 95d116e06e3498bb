"""A program in a pseudo terminal, driven as a person drives it."""

import os
import pty
import select
import signal
import subprocess
import termios
import time


class Terminal:
    def __init__(self, args, env, stderr=None):
        self.master, slave = pty.openpty()
        settings = termios.tcgetattr(slave)
        settings[3] &= ~termios.ECHO
        termios.tcsetattr(slave, termios.TCSANOW, settings)
        self.process = subprocess.Popen(
            args, stdin=slave, stdout=slave, stderr=stderr or slave, env=env,
            start_new_session=True, preexec_fn=lambda: self.control(slave))
        os.close(slave)
        self.seen = ""

    @staticmethod
    def control(slave):
        import fcntl
        fcntl.ioctl(slave, termios.TIOCSCTTY, 0)

    def write(self, text):
        os.write(self.master, text.encode())

    def line(self, text):
        self.wait_for_keys()
        self.write(text + "\r")

    def wait_for_keys(self, seconds=30):
        """Until the program reads keys by itself: what comes earlier is handled
        by the terminal's own editing, which drops and changes some of it."""
        end = time.monotonic() + seconds
        while (self.process.poll() is None and
               termios.tcgetattr(self.master)[3] & termios.ICANON):
            if time.monotonic() > end:
                raise AssertionError("no keys are read; %r" % self.seen)
            time.sleep(0.002)

    def until(self, text, seconds=30):
        """What is printed up to text, and that."""
        end = time.monotonic() + seconds
        while text not in self.seen:
            left = end - time.monotonic()
            if left <= 0:
                raise AssertionError("no %r in %r" % (text, self.seen))
            if not select.select([self.master], [], [], left)[0]:
                continue
            try:
                more = os.read(self.master, 65536)
            except OSError:
                more = b""
            if not more:
                raise AssertionError("ended without %r: %r" %
                                     (text, self.seen))
            self.seen += more.decode("utf-8", "replace")
        at = self.seen.index(text) + len(text)
        out, self.seen = self.seen[:at], self.seen[at:]
        return out

    def end(self, seconds=30):
        """The rest, and the exit code."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            if not select.select([self.master], [], [], left)[0]:
                raise AssertionError("does not end: %r" % self.seen)
            try:
                more = os.read(self.master, 65536)
            except OSError:
                break
            if not more:
                break
            self.seen += more.decode("utf-8", "replace")
        code = self.process.wait(timeout=seconds)
        os.close(self.master)
        return self.seen, code

    def interrupt(self):
        self.write("\x03")

    def end_of_input(self):
        """Ctrl-D."""
        self.wait_for_keys()
        self.write("\x04")

    def kill(self):
        if self.process.poll() is None:
            os.kill(self.process.pid, signal.SIGKILL)
            self.process.wait()
