// Links when lib/measure/cpu and lib/measure/cuda need no source that gpu_check.sh does not build.
int main() { return 0; }
