/* iris.c FOLDER: softmax regression on the iris data by gradient descent, data-parallel over MPI.
 *
 * Every rank takes each size-th row of FOLDER/iris_training.csv, the gradients are added up by MPI_Allreduce, so all ranks hold
 * the same weights. Rank 0 prints the accuracy on FOLDER/iris_test.csv. Compile with mpicc -O2 iris.c -o iris -lm */
#include <math.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

enum { kFeatures = 4, kInputs = kFeatures + 1, kClasses = 3, kRowsMax = 200, kSteps = 500 };

struct rows {
  int count;
  double x[kRowsMax][kInputs]; /* the last is the bias */
  int label[kRowsMax];
};

/* The first line holds counts and names; then sepal and petal lengths and widths in cm, and the class. */
static void read_rows(const char* folder, const char* name, struct rows* rows) {
  char path[4096], line[256];
  snprintf(path, sizeof path, "%s/%s", folder, name);
  FILE* file = fopen(path, "r");
  if (file == NULL || fgets(line, sizeof line, file) == NULL) {
    perror(path);
    MPI_Abort(MPI_COMM_WORLD, 2);
  }
  rows->count = 0;
  while (rows->count < kRowsMax && fgets(line, sizeof line, file) != NULL) {
    double* x = rows->x[rows->count];
    if (sscanf(line, "%lf,%lf,%lf,%lf,%d", &x[0], &x[1], &x[2], &x[3],
               &rows->label[rows->count]) == 5) {
      x[kFeatures] = 1;
      ++rows->count;
    }
  }
  fclose(file);
}

static void probabilities(double w[kInputs][kClasses], const double* x, double* p) {
  double sum = 0;
  for (int c = 0; c < kClasses; ++c) {
    double z = 0;
    for (int i = 0; i < kInputs; ++i) z += x[i] * w[i][c];
    p[c] = exp(z);
    sum += p[c];
  }
  for (int c = 0; c < kClasses; ++c) p[c] /= sum;
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank, size;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  const char* folder = argc > 1 ? argv[1] : ".";
  static struct rows train, test;
  read_rows(folder, "iris_training.csv", &train);

  double w[kInputs][kClasses] = {{0}}, p[kClasses];
  for (int step = 0; step < kSteps; ++step) {
    double gradient[kInputs][kClasses] = {{0}};
    for (int r = rank; r < train.count; r += size) {
      probabilities(w, train.x[r], p);
      p[train.label[r]] -= 1;
      for (int i = 0; i < kInputs; ++i)
        for (int c = 0; c < kClasses; ++c) gradient[i][c] += train.x[r][i] * p[c];
    }
    MPI_Allreduce(MPI_IN_PLACE, gradient, kInputs * kClasses, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    for (int i = 0; i < kInputs; ++i)
      for (int c = 0; c < kClasses; ++c) w[i][c] -= 0.2 * gradient[i][c] / train.count;
  }

  /* Where each rank ran, as dlrun names it. */
  const char* task = getenv("DLRUN_TASK");
  const char* node = getenv("DLRUN_NODE");
  printf("rank %d of %d is task %s on node %s\n", rank, size, task ? task : "-", node ? node : "-");
  if (rank == 0) {
    read_rows(folder, "iris_test.csv", &test);
    int right = 0;
    for (int r = 0; r < test.count; ++r) {
      probabilities(w, test.x[r], p);
      int best = 0;
      for (int c = 1; c < kClasses; ++c)
        if (p[c] > p[best]) best = c;
      right += best == test.label[r];
    }
    printf("test accuracy %.3f over %d ranks\n", (double)right / test.count, size);
  }
  MPI_Finalize();
  return 0;
}
