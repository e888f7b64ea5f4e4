// RUNMAX_API marks what the shared library exports; everything else is hidden.
#ifndef RUNMAX_EXPORT_HPP
#define RUNMAX_EXPORT_HPP

#if defined(__GNUC__)
#define RUNMAX_API __attribute__((visibility("default")))
#else
#define RUNMAX_API
#endif

#endif  // RUNMAX_EXPORT_HPP
