"""Ways out of a sandbox, each a Python program that prints ESCAPED if it found one, and HELD when it has tried."""

PREFIX = """
import ctypes, errno, fcntl, os, signal, socket, struct, subprocess, sys, time
libc = ctypes.CDLL(None, use_errno=True)
def call(*words):
    result = libc.syscall(*[ctypes.c_long(word) if isinstance(word, int) else word for word in words])
    return result, ctypes.get_errno()
def denied(*words, also=()):
    result, error = call(*words)
    return result == -1 and error in (errno.EPERM, errno.EACCES, errno.ENOSYS, *also)
def refuses(action, *arguments):
    try:
        action(*arguments)
    except (OSError, PermissionError):
        return True
    return False
def escaped(what):
    print("ESCAPED:", what)
"""

SUFFIX = """
print("HELD")
"""

# Numbers of system calls are those of x86_64 and aarch64, in this order.
NUMBERS = """
import platform
COLUMN = 0 if platform.machine() == "x86_64" else 1
def number(*both):
    return both[COLUMN]
"""

ATTEMPTS = {
    # --- network
    "network_internet": """
for address in (("1.1.1.1", 53), ("8.8.8.8", 443), ("169.254.169.254", 80)):
    with socket.socket() as out:
        out.settimeout(1)
        if not refuses(out.connect, address):
            escaped(address)
""",
    "network_datagram": """
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as out:
    if not refuses(out.sendto, b"hello", ("8.8.8.8", 53)):
        escaped("a datagram left")
""",
    "network_names": """
if not refuses(socket.getaddrinfo, "deb.debian.org", 80):
    escaped("a name was resolved")
""",
    "network_interfaces": """
names = {name for _index, name in socket.if_nameindex()}
if not names <= {"lo", "tunl0", "sit0", "ip6tnl0", "gre0", "gretap0", "erspan0", "ip_vti0", "ip6_vti0", "ip6gre0"}:
    escaped(names)
""",
    "network_raw_socket": """
for family, kind in ((socket.AF_PACKET, socket.SOCK_RAW), (socket.AF_INET, socket.SOCK_RAW)):
    if not refuses(socket.socket, family, kind):
        escaped((family, kind))
""",
    "network_virtual_machine_socket": """
if not refuses(socket.socket, 40, socket.SOCK_STREAM):  # vsock reaches the host of a virtual machine
    escaped("vsock")
""",
    # --- mounts and namespaces
    "mount_tmpfs": """
if libc.mount(b"none", b"/tmp", b"tmpfs", 0, None) == 0:
    escaped("mounted")
""",
    "mount_remount_writable": """
if libc.mount(None, b"/usr", None, 32, None) == 0:
    escaped("remounted")
""",
    "mount_unmount": """
for path in (b"/usr", b"/proc/sys", b"/work", b"/"):
    if libc.umount2(path, 2) == 0:
        escaped(path)
""",
    "mount_new_interface": """
for call_number in (428, 429, 430, 432, 442):
    if not denied(call_number, 0, 0, 0, 0, 0):
        escaped(call_number)
""",
    "namespace_unshare": """
for flag in (0x10000000, 0x20000000, 0x40000000, 0x00020000, 0x04000000, 0x08000000):
    if libc.unshare(flag) == 0:
        escaped(hex(flag))
""",
    "namespace_clone": """
pid, error = call(number(56, 220), 0x10000000 | signal.SIGCHLD, 0, 0, 0, 0)
if pid == 0:
    os._exit(0)
if pid > 0:
    escaped("clone made a user namespace")
""",
    "namespace_clone3": """
arguments = struct.pack("11Q", 0x10000000, 0, 0, 0, signal.SIGCHLD, 0, 0, 0, 0, 0, 0)
pid, error = call(435, ctypes.c_char_p(arguments), len(arguments))
if pid == 0:
    os._exit(0)
if pid > 0:
    escaped("clone3 made a user namespace")
""",
    "namespace_enter": """
for name in ("mnt", "user", "pid", "net"):
    with open(f"/proc/self/ns/{name}") as file:
        if libc.setns(file.fileno(), 0) == 0:
            escaped(name)
""",
    "root_chroot": """
os.makedirs("/tmp/jail", exist_ok=True)
if not refuses(os.chroot, "/tmp/jail"):
    escaped("chroot")
if not denied(number(155, 41), b"/tmp", b"/tmp"):
    escaped("pivot_root")
""",
    "read_only_system": """
for path in ("/usr/bin/new", "/bin/new", "/etc/new", "/new", "/dev/new", "/run/new", "/var/new", "/home/new"):
    if not refuses(open, path, "w"):
        escaped(path)
for path in ("/etc/passwd", "/usr/bin/env"):
    if not refuses(open, path, "a"):
        escaped(path)
""",
    # --- /proc
    "proc_sysrq": """
if not refuses(open, "/proc/sysrq-trigger", "w"):
    escaped("sysrq")
""",
    "proc_settings": """
for name in ("kernel/core_pattern", "kernel/modprobe", "vm/overcommit_memory", "kernel/hostname"):
    def change(path):
        with open(path, "r+") as file:
            file.write("|/bin/true")
    if not refuses(change, f"/proc/sys/{name}"):
        escaped(name)
""",
    "proc_kernel_memory": """
def read(path):
    with open(path, "rb") as file:
        if not file.read(16):
            raise OSError("empty, so masked")
for path in ("/proc/kcore", "/dev/mem", "/dev/kmem", "/dev/port", "/proc/timer_list"):
    if not refuses(read, path):
        escaped(path)
""",
    "proc_other_roots": """
for pid in (name for name in os.listdir("/proc") if name.isdigit()):
    for link in ("root", "cwd"):
        for path in ("root/.bashrc", "work/main", "var/lib/dpkg/status", "etc/shadow"):
            if os.path.exists(f"/proc/{pid}/{link}/{path}"):
                escaped(f"/proc/{pid}/{link}/{path}")
""",
    "proc_oom_score": """
def protect():
    with open("/proc/self/oom_score_adj", "w") as file:
        file.write("-1000")
if not refuses(protect):
    escaped("immune against the end of memory")
""",
    "inherited_files": """
open_now = {int(name) for name in os.listdir("/proc/self/fd")}
for fd in open_now - {0, 1, 2}:
    try:
        if not os.readlink(f"/proc/self/fd/{fd}").startswith("/proc/"):
            escaped(os.readlink(f"/proc/self/fd/{fd}"))
    except FileNotFoundError:
        pass
""",
    # --- privileges
    "setuid_call": """
for action in (os.setuid, os.setgid, os.seteuid):
    if not refuses(action, 0):
        escaped(action.__name__)
""",
    "setuid_file": """
import shutil
shutil.copy("/usr/bin/id", "/tmp/id")
os.chmod("/tmp/id", 0o6755)
if subprocess.run(["/tmp/id", "-u"], capture_output=True, text=True).stdout.strip() != str(os.getuid()):
    escaped("a set-user-id copy works")
""",
    "setuid_programs_of_the_system": """
for program in ("su", "sudo", "mount", "newgrp", "passwd", "pkexec", "newuidmap"):
    try:
        done = subprocess.run([program, "-c", "id -u"], capture_output=True, text=True, stdin=subprocess.DEVNULL)
    except OSError:
        continue
    if done.returncode == 0 and done.stdout.strip() == "0":
        escaped(program)
""",
    "capabilities": """
status = open("/proc/self/status").read()
for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"):
    value = int(status.split(name + ":")[1].split()[0], 16)
    if value and name != "CapBnd":
        escaped((name, hex(value)))
if "NoNewPrivs:\\t1" not in status or "Seccomp:\\t2" not in status:
    escaped("no filter")
if not refuses(os.chown, "/tmp", 0, 0):
    escaped("chown")
""",
    # --- the rest of the kernel
    "ptrace": """
child = subprocess.Popen(["sleep", "5"])
if not denied(number(101, 117), 16, child.pid, 0, 0):
    escaped("attached")
child.kill()
""",
    "ptrace_first_process": """
if not denied(number(101, 117), 16, 1, 0, 0):
    escaped("attached")
if not refuses(open, "/proc/1/mem", "r+b"):
    escaped("the memory of the first process")
""",
    "process_memory": """
buffer = ctypes.create_string_buffer(8)
vector = struct.pack("PN", ctypes.addressof(buffer), 8)
if not denied(number(310, 270), os.getpid(), vector, 1, vector, 1, 0):
    escaped("process_vm_readv")
""",
    "keyctl": """
for words in ((number(250, 219), 0, -4, 1), (number(248, 217), b"user", b"name", b"value", 5, -4)):
    if not denied(*words):
        escaped(words)
""",
    "bpf": """
if not denied(number(321, 280), 0, 0, 0):
    escaped("bpf")
if not denied(number(298, 241), 0, 0, 0, 0, 0):
    escaped("perf_event_open")
if not denied(number(323, 282), 0):
    escaped("userfaultfd")
if not denied(425, 8, 0):
    escaped("io_uring")
""",
    "kernel_modules": """
for words in ((number(175, 105), 0, 0, b""), (number(246, 104), 0, 0, 0, 0), (number(169, 142), 0, 0, 0, 0)):
    if not denied(*words):
        escaped(words)
""",
    "clock": """
if not refuses(time.clock_settime, time.CLOCK_REALTIME, 0.0):
    escaped("the clock was set")
""",
    "terminal_input": """
master, slave = os.openpty()
if not refuses(fcntl.ioctl, slave, 0x5412, b"x"):
    escaped("TIOCSTI")
""",
    "foreign_calls": """
if COLUMN == 0:
    pid = os.fork()
    if pid == 0:
        libc.syscall(ctypes.c_long(0x40000000 + 39))  # the same call by its x32 number
        os._exit(0)
    if os.waitpid(pid, 0)[1] == 0:
        escaped("a call by its x32 number was let through")
""",
    # --- devices
    "device_make": """
for kind, numbers in ((0o060000, (8, 0)), (0o060000, (254, 0)), (0o020000, (1, 1)), (0o020000, (5, 1))):
    if not refuses(os.mknod, "/tmp/device", 0o600 | kind, os.makedev(*numbers)):
        escaped(numbers)
""",
    "device_open": """
for name in ("sda", "vda", "nvme0n1", "kvm", "fuse", "kmsg", "loop-control", "mapper/control", "net/tun", "vsock"):
    if not refuses(open, f"/dev/{name}", "rb"):
        escaped(name)
""",
    # --- memory that no limit of the file system counts
    "memory_files": """
if not refuses(os.memfd_create, "hidden"):
    escaped("memfd_create")
if not denied(number(29, 194), 0, 1 << 20, 0o1600):
    escaped("shmget")
""",
}


def program(name):
    return PREFIX + NUMBERS + ATTEMPTS[name] + SUFFIX
