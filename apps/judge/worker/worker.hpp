// The process in which a candidate runs.
#pragma once

namespace runmax::judge {

// Serves the socket that it was started with, and returns the process's exit status. Called by main before
// anything else, so that the process holds as little as it can.
int worker_main();

}  // namespace runmax::judge
