/* Compiled with the headers of an installed logdur. */
#if __has_include(<logdur_handler.h>)
#include <logdur_handler.h>
#endif

int uses_logdur(void) { return 0; }
