/* Built with -Ofast as a library of its own: loading it flushes denormals in the thread that loads it, where
   the compiler links its start-up code into libraries. */
float fast_library_product(float a, float b);
float fast_library_product(float a, float b)
{
    return a * b;
}
