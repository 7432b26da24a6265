export default "Nobody may read this: no type declares it.";
