"""How Chromium is started, so that no part of it outlives this process.

Playwright's driver gets a folder of its own for temporary files, and starts Chromium through a shell that removes this
folder once Chromium has ended. So, whichever process is killed: if this process dies, the driver hears of it and closes
Chromium; if the driver dies, Chromium ends with the pipe to it; and when Chromium has ended, its profile and all else
is removed.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from typing import Any

_DISABLED = ",".join((
    "AcceptCHFrame", "AutofillServerCommunication", "BackForwardCache", "CertificateTransparencyComponentUpdater",
    "DialMediaRouteProvider", "GlobalMediaControls", "HttpsFirstBalancedModeAutoEnable", "HttpsFirstModeV2",
    "HttpsUpgrades", "IsolateOrigins", "IsolateSandboxedIframes", "LensOverlay", "MediaRouter", "OptimizationHints",
    "PaintHolding", "Prerender2", "RenderDocument", "SpeculationRulesPrefetchFuture", "Translate", "site-per-process",
    # pages of the address bar's list, which every new context would load in a process of their own
    "WebUIOmniboxAimPopup", "WebUIOmniboxPopup",
))  # fmt: skip

FLAGS = (
    "--headless",
    "--remote-debugging-pipe",
    "--no-startup-window",
    "--no-sandbox",  # root has none; pages come from the sites that a task names
    "--no-first-run",
    "--no-default-browser-check",
    "--no-service-autorun",
    "--no-pings",
    "--disable-gpu",
    "--disable-quic",
    "--disable-sync",
    "--disable-breakpad",
    "--disable-extensions",
    "--disable-default-apps",
    "--disable-component-update",
    "--disable-component-extensions-with-background-pages",
    "--disable-background-networking",
    "--disable-background-timer-throttling",
    "--disable-backgrounding-occluded-windows",
    "--disable-renderer-backgrounding",
    "--disable-client-side-phishing-detection",
    "--disable-field-trial-config",
    "--disable-hang-monitor",
    "--disable-ipc-flooding-protection",
    "--disable-prompt-on-repost",
    "--disable-search-engine-choice-screen",
    "--disable-site-isolation-trials",  # the frames of a page share its process
    "--disable-smooth-scrolling",
    "--disable-dev-shm-usage",
    "--disable-lcd-text",
    "--dns-prefetch-disable",
    f"--disable-features={_DISABLED}",
    "--font-render-hinting=none",
    "--force-color-profile=srgb",
    "--force-webrtc-ip-handling-policy=disable_non_proxied_udp",
    "--hide-scrollbars",
    "--mute-audio",
    "--metrics-recording-only",
    "--password-store=basic",
    "--use-mock-keychain",
    "--js-flags=--max-old-space-size=768",  # a page that eats memory crashes by itself, before the machine does
)

# $1 is the folder, the rest is the browser's command. Signals that end the browser do not end the shell.
_SHELL = 'trap : TERM INT HUP; folder=$1; shift; "$@"; rm -rf "$folder"'


def command(program: str, folder: str, *, visible: bool = False) -> tuple[str, list[str]]:
    """The command that starts Chromium: a program and its arguments. ``folder`` is removed when it has ended."""
    profile = os.path.join(folder, "profile")
    flags = [flag for flag in FLAGS if not (visible and flag == "--headless")]
    return "/bin/sh", ["-c", _SHELL, "sh", folder, program, f"--user-data-dir={profile}", *flags]


class DriverLoop(asyncio.SelectorEventLoop):
    """An event loop whose child process, Playwright's driver, leads a session of its own (signals to the group of this
    process do not reach it) and has ``folder`` for its temporary files."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = ""
        self.driver: asyncio.SubprocessTransport | None = None

    async def subprocess_exec(self, protocol_factory: Any, program: Any, *args: Any, **options: Any) -> Any:
        options["start_new_session"] = True
        options["env"] = {**(options.get("env") or os.environ), "TMPDIR": self.folder}
        transport, protocol = await super().subprocess_exec(protocol_factory, program, *args, **options)
        self.driver = transport
        return transport, protocol

    def close_pipes(self) -> None:
        """In a forked process: close its copies of the pipes by which the driver hears of our end."""
        for number in (0, 1, 2):
            pipe = self.driver.get_pipe_transport(number) if self.driver else None
            if pipe is not None:
                with contextlib.suppress(OSError):
                    os.close(pipe.get_extra_info("pipe").fileno())

    def kill_driver(self) -> None:
        """End the driver, if it still runs; Chromium ends with it."""
        if self.driver is not None and self.driver.get_returncode() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.driver.get_pid(), signal.SIGKILL)
